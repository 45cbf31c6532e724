"""The verdict follows from what was recorded, and from nothing else."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from xml.etree import ElementTree

import pytest

from trimtab.model.errors import SettingsError
from trimtab_agent.demo import measure, picture, trace
from trimtab_agent.demo.measure import Facts, Sample
from trimtab_agent.demo.scheduler import Scheduler

SAMPLES = (
    Sample(0, 8, 1, ("i-a",), 0, 0),
    Sample(1, 9, 3, ("i-a", "i-b", "i-c"), 20, 4),
    Sample(2, 10, 3, ("i-b", "i-c", "i-d"), 8, 0),
    Sample(3, 11, 1, ("i-d",), 0, 0),
)
HUMAN = MappingProxyType(
    {
        "exit": 0,
        "max_before": 6,
        "max_wanted": 8,
        "max_after": 8,
        "desired_before": 3,
        "desired_after": 3,
        "state_desired_after": 3,
    }
)
POLICY = MappingProxyType({"exit": 255, "named": True, "role_exists": False})


def good_facts() -> Facts:
    return Facts("i-a", 1.0, 1.5, frozenset({"i-a", "i-b", "i-c"}), 2.0, dict(HUMAN), dict(POLICY))


def test_a_day_on_which_everything_happened_is_good():
    answers = measure.verdict(SAMPLES, good_facts())

    assert answers["detected_seconds"] == 0.5
    assert measure.is_good(answers)


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"cordoned_wall": None}, "detected_seconds"),
        ({"replaced_wall": None}, "replaced"),
        ({"human": {}}, "kept_desired_on_human_up"),
        ({"human": {**HUMAN, "desired_after": 1}}, "kept_desired_on_human_up"),
        ({"human": {**HUMAN, "state_desired_after": 1}}, "kept_desired_on_human_up"),
        ({"human": {**HUMAN, "max_after": 6}}, "kept_desired_on_human_up"),
        ({"human": {**HUMAN, "exit": 1}}, "kept_desired_on_human_up"),
        ({"policy": {}}, "policy_blocked"),
        ({"policy": {**POLICY, "exit": 0}}, "policy_blocked"),
        ({"policy": {**POLICY, "named": False}}, "policy_blocked"),
        ({"policy": {**POLICY, "role_exists": True}}, "policy_blocked"),
    ],
)
def test_each_missing_fact_spoils_its_own_answer(change, answer):
    answers = measure.verdict(SAMPLES, replace(good_facts(), **change))

    assert [key for key, value in answers.items() if not value] == [answer]
    assert not measure.is_good(answers)


def test_a_fleet_that_never_moved_neither_grew_nor_shrank():
    answers = measure.verdict([SAMPLES[0], SAMPLES[0]], good_facts())

    assert not answers["scaled_out"]
    assert not answers["scaled_in"]


def test_a_node_counts_as_replaced_only_by_one_that_nobody_had_seen():
    facts = good_facts()

    assert not measure.replaced(facts, Sample(1.5, 9, 3, ("i-b", "i-c"), 0, 0))
    assert not measure.replaced(facts, Sample(1.5, 9, 3, ("i-a", "i-b", "i-d"), 0, 0))
    assert measure.replaced(facts, Sample(1.5, 9, 3, ("i-b", "i-d"), 0, 0))


def test_paid_hours_are_nodes_times_gpus_times_hours():
    assert measure.paid_gpu_hours(SAMPLES) == (1 + 3 + 3) * 8


def test_the_summary_says_what_it_is_in():
    summary = measure.summary(SAMPLES, good_facts(), Scheduler(), 780)

    assert summary["replaced_seconds"] == 1.0
    assert {"queue_wait_p95_day_minutes", "queue_wait_p95_wall_seconds"} <= summary.keys()


def test_the_picture_is_well_formed_and_holds_every_event():
    svg = picture.draw(SAMPLES, [(9.5, "a <b> & c"), (99, "late")], "a day")

    texts = [element.text for element in ElementTree.fromstring(svg).iter() if element.text]  # noqa: S314  # our own
    assert {"a <b> & c", "late", "a day", "GPUs in service"} <= set(texts)


def test_the_recorded_day_is_sorted_and_within_its_hours():
    jobs = trace.read(trace.FILE)

    assert len(jobs) > 100
    assert [job.submit for job in jobs] == sorted(job.submit for job in jobs)
    assert all(trace.DAY_START_SECONDS <= job.submit < trace.DAY_END_SECONDS and job.gpus <= 8 for job in jobs)


def test_a_missing_recording_says_what_to_do(tmp_path):
    with pytest.raises(SettingsError, match="cannot be read") as caught:
        trace.read(tmp_path / "none.csv")

    assert "checkout" in caught.value.hint
