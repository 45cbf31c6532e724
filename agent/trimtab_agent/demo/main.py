"""Plays the recorded day: starts the world, turns the clock, lets the acts happen, and reports what was measured."""

from __future__ import annotations

import json
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from trimtab_agent.demo import measure, picture, trace
from trimtab_agent.demo.fleet import Fleet, serve_queue
from trimtab_agent.demo.measure import Facts, Sample
from trimtab_agent.demo.scheduler import Scheduler
from trimtab_agent.demo.story import Story
from trimtab_agent.demo.view import View, clock_of
from trimtab_agent.demo.world import STACK, World
from trimtab_agent.reconciler.journal import Journal

TICK_SECONDS = 0.5
BRISK_UPDATE_SECONDS = 5.0
SHOW_DAY = "Philly, one virtual cluster, 2017-09-29"


@dataclass(frozen=True, slots=True)
class Pace:
    """How quickly the day goes by, in wall-clock seconds."""

    day: float
    most: float
    every: str
    shrink_after: float

    @property
    def factor(self) -> float:
        """Seconds of the day in one second on the wall."""
        return (trace.DAY_END_SECONDS - trace.DAY_START_SECONDS) / self.day

    def at_speed(self, update_seconds: float) -> Pace:
        """The pace for a machine whose first stack update took so long; a slow one gets a longer day."""
        return replace(self, day=self.day * max(1.0, update_seconds / BRISK_UPDATE_SECONDS))


FAST = Pace(day=30.0, most=150.0, every="1s", shrink_after=4.0)
CALM = Pace(day=100.0, most=240.0, every="2s", shrink_after=8.0)


def run(project: Path, *, fast: bool, as_json: bool, picture: Path | None) -> int:
    """Play the day; 0 when every answer is good, else 1.

    Raises:
        TrimtabError: something that the demo needs is missing.
    """
    signal.signal(signal.SIGTERM, _as_interrupt)
    pace, jobs = FAST if fast else CALM, trace.read(project / trace.FILE)
    view = View(quiet=as_json)
    view.say(
        f"A day of a real GPU cluster ({SHOW_DAY}), {pace.factor:.0f} times as fast. Starting AWS, engine and agents."
    )
    try:
        with World(project, pace.shrink_after) as world:
            pace = pace.at_speed(_first_update(world))
            return _report(*_play(world, jobs, pace, view), view, pace, as_json=as_json, target=picture)
    except KeyboardInterrupt:
        view.say("Stopped; nothing is left running.")
        return 130


def _first_update(world: World) -> float:
    """Create the stack; how many seconds that took says how brisk this machine is."""
    started = time.monotonic()
    world.pulumi(world.project, "up", "--yes", "--skip-preview", "--stack", STACK)
    return time.monotonic() - started


def _as_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _play(world: World, jobs: tuple[trace.Job, ...], pace: Pace, view: View) -> tuple[list[Sample], Facts, Scheduler]:
    """The whole day, and what follows until the fleet is small again."""
    view.say(f"The day goes by {pace.factor:.0f} times as fast as it did.")
    journal = Journal(f"sqlite:///{world.folder / 'journal.db'}")
    scheduler, facts, samples = Scheduler(), Facts(), list[Sample]()
    fleet, queue = Fleet(world, scheduler), serve_queue(scheduler, world.queue_port)
    story = Story(world, fleet, journal, facts)
    try:
        _wait_for_first_node(world, fleet)
        command = [sys.executable, "-m", "trimtab_agent.cli", "reconcile", "--every", pace.every, "--json"]
        world.start(command, log="reconciler.log", cwd=world.project)
        with view:
            _turn(world, jobs, pace, view, fleet, story, samples)
    finally:
        queue.shutdown()
        queue.server_close()
        fleet.close()
        journal.close()
    return samples, facts, scheduler


def _wait_for_first_node(world: World, fleet: Fleet) -> None:
    deadline = time.monotonic() + 20
    while not fleet.reports and time.monotonic() < deadline:
        world.keep_fleet(world.group())
        fleet.tick(trace.DAY_START_SECONDS)
        time.sleep(TICK_SECONDS)


def _turn(
    world: World,
    jobs: tuple[trace.Job, ...],
    pace: Pace,
    view: View,
    fleet: Fleet,
    story: Story,
    samples: list[Sample],
) -> None:
    """Turn the clock until the day is over, all acts have ended and the fleet is at its smallest again."""
    started, began = time.monotonic(), time.time()
    coming = list(jobs)
    while True:
        wall = time.monotonic() - started
        now = trace.DAY_START_SECONDS + wall * pace.factor
        while coming and coming[0].submit <= now:
            fleet.scheduler.submit(coming.pop(0))
        group = world.recent_group()
        world.keep_fleet(group)
        requeued = fleet.tick(now)
        sample = _sample(wall, now, group, fleet.scheduler)
        samples.append(sample)
        news = story.tick(sample, began)
        if requeued:
            news.insert(0, f"{requeued} jobs checkpoint and go back to the head of the queue")
        for sentence in news:
            view.tell(clock_of(sample.hour), sentence)
        view.show(sample, fleet.scheduler, fleet.reports, wall / pace.day)
        quiet = not coming and not fleet.scheduler.running and not fleet.scheduler.queue
        if (quiet and story.is_over and group.desired == group.min_size) or wall > pace.most:
            return
        time.sleep(max(0.0, TICK_SECONDS - (time.monotonic() - started - wall)))


def _sample(wall: float, now: float, group: Any, scheduler: Scheduler) -> Sample:
    serving = tuple(sorted(each.instance_id for each in group.instances if each.lifecycle == "InService"))
    busy = sum(each.job.gpus for each in scheduler.running)
    return Sample(round(wall, 2), now / 3600, group.desired, serving, busy, scheduler.pending_gpus)


def _report(
    samples: list[Sample],
    facts: Facts,
    scheduler: Scheduler,
    view: View,
    pace: Pace,
    *,
    as_json: bool,
    target: Path | None,
) -> int:
    answers = measure.verdict(samples, facts)
    figures = measure.summary(samples, facts, scheduler, pace.factor)
    path = target or Path("trimtab-demo.svg")
    if target is not None or not as_json:
        title = f"{SHOW_DAY}: {figures['jobs']} jobs"
        path.write_text(picture.draw(samples, facts.events, title), encoding="utf-8")
    if as_json:
        print(json.dumps({**answers, **figures}))
    else:
        view.result(answers, figures)
        view.say(f"The picture of the day: {path.resolve()}")
    return 0 if measure.is_good(answers) else 1
