"""The demo's scheduler: order, packing, and what happens to the jobs of a draining node."""

from __future__ import annotations

from trimtab_agent.demo.scheduler import Scheduler
from trimtab_agent.demo.trace import Job


def scheduler_with(*jobs: Job) -> Scheduler:
    scheduler = Scheduler()
    for job in jobs:
        scheduler.submit(job)
    return scheduler


def test_a_job_starts_on_the_fullest_node_that_fits_it():
    scheduler = scheduler_with(Job(1, 0, 100, 2))

    scheduler.place({"a": 8, "b": 3}, now=10)

    assert [each.node for each in scheduler.running] == ["b"]
    assert scheduler.waits == {1: 10}


def test_a_small_job_fills_a_gap_that_the_first_in_line_does_not_fit():
    scheduler = scheduler_with(Job(1, 0, 100, 8), Job(2, 0, 100, 1))

    scheduler.place({"a": 4}, now=0)

    assert [each.job.number for each in scheduler.running] == [2]
    assert scheduler.pending_gpus == 8


def test_an_evicted_job_keeps_what_it_has_done_and_comes_first():
    scheduler = scheduler_with(Job(1, 0, 100, 4), Job(2, 0, 100, 8))
    scheduler.place({"a": 8}, now=0)

    moved = scheduler.evict("a", now=30)

    assert moved == 1
    assert [(job.number, job.duration) for job in scheduler.queue] == [(1, 70), (2, 100)]
    assert scheduler.gpu_seconds_used == 4 * 30


def test_a_job_that_was_evicted_waits_only_once_in_the_figures():
    scheduler = scheduler_with(Job(1, 0, 100, 4))
    scheduler.place({"a": 8}, now=5)
    scheduler.evict("a", now=30)
    scheduler.place({"b": 8}, now=60)

    assert scheduler.waits == {1: 5}


def test_finished_jobs_count_the_gpu_time_that_they_used():
    scheduler = scheduler_with(Job(1, 0, 100, 4))
    scheduler.place({"a": 8}, now=0)

    scheduler.finish(now=100)

    assert scheduler.running == []
    assert scheduler.gpu_seconds_used == 400
