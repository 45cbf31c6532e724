"""Scaling, rule by rule, as scenes: the words say what the nodes are like, the lists what a round decides."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from trimtab.model.scaling import Bound, CapacityOwner, GroupSpec, Pin, ScalingPolicy, Signal
from trimtab_agent.reconciler.history import Orders
from trimtab_agent.simulation.scene import Scene
from trimtab_agent.simulation.world import START

NOW = timedelta(0)
STEADY = ScalingPolicy(stabilization_down=NOW, cooldown_up=NOW, cooldown_down=NOW)
SPEC = GroupSpec("train", "urn:1", "asg-1", 1, 10, 3, instance_type="p4d.24xlarge", scaling=STEADY)
QUEUE = Signal("queue", "pending_gpus", up=Bound(0, per_node=8))
BUSY = Signal("busy", "busy_nodes", down=Bound(1000, per_node=1))


def spec_of(*signals: Signal, **changes: object) -> GroupSpec:
    policy = replace(STEADY, signals=signals, **changes)  # type: ignore[arg-type]  # names and values are the caller's
    return replace(SPEC, scaling=policy)


def load(up: Bound | None = None, down: Bound | None = None, source: str = "promql") -> Signal:
    return Signal("load", source, "q" if source == "promql" else None, up, down)


@pytest.mark.parametrize(
    ("signal", "value", "expected"),
    [
        (load(up=Bound(5, nodes=2)), 6, ["desired 3->5"]),
        (load(up=Bound(5, nodes=2)), 5, []),  # a bound is passed, not touched
        (load(up=Bound(5, percent=50)), 6, ["desired 3->5"]),  # half of 3, rounded up
        (load(up=Bound(5, percent=1)), 6, ["desired 3->4"]),  # a step is at least one node
        (load(up=Bound(0, per_node=10)), 41, ["desired 3->5"]),
        (load(up=Bound(0, per_node=10)), 11, []),  # up never shrinks
        (load(up=Bound(5, nodes=99)), 6, ["desired 3->10"]),  # no further than max
        (load(down=Bound(5, nodes=1)), 4, ["close i-1"]),
        (load(down=Bound(5, percent=50)), 4, ["close i-1", "close i-2"]),
        (load(down=Bound(5, nodes=9)), 4, ["close i-1", "close i-2"]),  # no further than min
        (load(down=Bound(99, per_node=10)), 11, ["close i-1"]),
        (load(down=Bound(99, per_node=10)), 98, []),  # down never grows
        (load(up=Bound(0.5, per_node=0.5), source="gpu_utilization"), 0.9, ["desired 3->6"]),  # 3 nodes at 0.9
        (load(down=Bound(0.4, per_node=0.5), source="busy_ratio"), 0.3, ["close i-1"]),
    ],
)
def test_a_bound_that_is_passed_asks_for(signal: Signal, value: float, expected: list[str]) -> None:
    scene = Scene(spec_of(signal), "idle idle idle", {"load": value})
    assert scene.round() == expected


@pytest.mark.parametrize(
    ("words", "pending", "expected"),
    [
        ("busy busy idle", 8, []),  # the idle node takes it
        ("busy busy idle", 9, ["desired 3->4"]),
        ("busy busy busy", 16, ["desired 3->5"]),
        ("busy busy pending", 8, []),  # a node that boots will take it
        ("busy busy silent", 8, []),  # so will one that has just booted
        ("busy busy idle+theirs", 8, ["desired 3->4"]),  # a cordoned node takes nothing
        ("busy busy vague", 8, ["desired 3->4"]),  # neither does one of unknown health
        ("busy busy mute", 8, ["desired 3->4"]),  # nor one that cannot tell whether it is busy
        ("busy busy half", 8, ["desired 3->4"]),  # nor an unhealthy one
        ("busy busy idle+closed", 8, ["reopen i-3"]),  # one that we closed comes back first
        ("busy busy idle+closed", 9, ["desired 3->4", "reopen i-3"]),
    ],
)
def test_pending_work_comes_on_top_of_the_nodes_that_can_take_none(
    words: str, pending: float, expected: list[str]
) -> None:
    scene = Scene(spec_of(QUEUE), words, {"queue": pending})
    assert scene.round() == expected


class TestTwoSignals:
    def test_the_largest_wanted_wins(self) -> None:
        one, two = replace(load(up=Bound(5, nodes=1)), name="one"), replace(load(up=Bound(5, nodes=3)), name="two")
        assert Scene(spec_of(one, two), "idle idle idle", {"one": 6, "two": 6}).round() == ["desired 3->6"]

    def test_a_signal_inside_its_bounds_keeps_the_size(self) -> None:
        one = replace(load(up=Bound(9, nodes=1), down=Bound(5, nodes=1)), name="one")
        spec = spec_of(one, replace(one, name="two"))
        assert Scene(spec, "idle idle idle", {"one": 4, "two": 6}).round() == []
        assert Scene(spec, "idle idle idle", {"one": 4, "two": 4}).round() == ["close i-1"]

    def test_a_signal_that_can_only_grow_does_not_keep_the_size(self) -> None:
        scene = Scene(spec_of(QUEUE, BUSY), "busy idle idle", {"queue": 0, "busy": 1})
        assert scene.round() == ["close i-2", "close i-3"]

    @pytest.mark.parametrize("value", [None, math.nan, math.inf])
    def test_one_that_cannot_be_read_forbids_shrinking_and_says_so(self, value: float | None) -> None:
        scene = Scene(spec_of(QUEUE, BUSY), "busy idle idle", {"queue": value, "busy": 1})
        plan = scene.decide()
        assert plan.is_empty
        assert plan.changes[0].reason.sentence.endswith("so nothing shrinks")

    def test_one_that_cannot_be_read_does_not_forbid_growing(self) -> None:
        scene = Scene(spec_of(QUEUE, BUSY), "busy busy busy", {"queue": 8, "busy": None})
        assert scene.round() == ["desired 3->4"]

    def test_none_that_can_be_read_changes_nothing_and_says_so(self) -> None:
        scene = Scene(spec_of(QUEUE, BUSY), "busy idle idle", {"busy": None})
        plan = scene.decide()
        assert plan.changes[0].reason.sentence == (
            "queue is unknown (never measured); busy is unknown (no answer), so nothing changes"
        )


class TestTime:
    def test_a_bound_must_be_passed_for_its_hold_without_a_gap(self) -> None:
        scene = Scene(spec_of(load(up=Bound(5, timedelta(seconds=60), nodes=1))), "idle idle idle", {"load": 6})
        assert [scene.round(), scene.round()] == [[], []]
        scene.signals = {"load": None}
        assert scene.round() == ["hold: threshold"]
        scene.signals = {"load": 6}
        assert [scene.round(), scene.round(), scene.round()] == [[], [], ["desired 3->4"]]

    def test_a_bound_that_is_passed_but_not_for_long_enough_keeps_the_size(self) -> None:
        waiting = replace(load(up=Bound(5, timedelta(seconds=60), nodes=1)), name="waiting")
        scene = Scene(spec_of(waiting, BUSY), "busy idle idle", {"waiting": 6, "busy": 1})
        assert scene.round() == []

    def test_a_sample_that_is_too_old_proves_nothing(self) -> None:
        spec = spec_of(load(up=Bound(5, nodes=1)), stale_after=timedelta(seconds=-1))
        assert Scene(spec, "", {"load": 6}, desired=3).round() == ["hold: threshold"]

    def test_growing_waits_for_its_cooldown_and_shrinking_for_both(self) -> None:
        minute = timedelta(minutes=1)
        spec = spec_of(load(up=Bound(5, nodes=1), down=Bound(3, nodes=1)), cooldown_up=minute, cooldown_down=3 * minute)
        scene = Scene(spec, "busy busy busy", {"load": 6})
        assert scene.round() == ["desired 3->4"]
        assert scene.round("busy busy busy idle") == ["hold: threshold"]
        assert scene.round() == ["desired 4->5"]
        scene.signals = {"load": 2}
        assert scene.round("busy busy busy idle idle", seconds=170) == ["hold: threshold"]
        assert scene.round(seconds=10) == ["close i-4"]
        assert scene.round("busy busy busy idle+closed idle") == ["retire i-4 -1", "desired 5->4"]
        assert scene.round("busy busy busy idle", seconds=170) == ["hold: threshold"]

    def test_shrinking_follows_the_largest_recommendation_of_its_window(self) -> None:
        spec = spec_of(BUSY, stabilization_down=timedelta(seconds=100))
        scene = Scene(spec, "busy idle idle", {"busy": 1})
        assert [scene.round() for _ in range(4)] == [["hold: threshold"]] * 4
        assert scene.round() == ["close i-2", "close i-3"]

    def test_a_peak_inside_the_window_holds_the_size(self) -> None:
        spec = spec_of(BUSY, stabilization_down=timedelta(seconds=100))
        scene = Scene(spec, "busy idle idle", {"busy": 1}).remember(wants=((START, 2),))
        assert scene.round(seconds=50) == ["close i-2"]  # 2 was wanted 50 seconds ago, 1 is wanted now

    def test_growing_follows_the_smallest_recommendation_of_its_window(self) -> None:
        spec = spec_of(load(up=Bound(5, nodes=4)), stabilization_up=timedelta(seconds=60))
        scene = Scene(spec, "idle idle idle", {"load": 6})
        assert [scene.round(), scene.round()] == [["hold: threshold"]] * 2
        assert scene.round() == ["desired 3->7"]

    def test_a_fresh_start_is_no_reason_to_shrink(self) -> None:
        scene = Scene(spec_of(BUSY, stabilization_down=timedelta(hours=1)), "idle idle idle", {"busy": 0})
        assert scene.round() == ["hold: threshold"]


class TestWhoLeaves:
    @pytest.mark.parametrize(
        "word", ["busy", "mute", "silent", "stale", "ahead", "vague", "idle+theirs", "pending", "leaving", "dead"]
    )
    def test_never_a_node_that_is(self, word: str) -> None:
        scene = Scene(spec_of(load(down=Bound(5, nodes=1))), word, {"load": 4}, desired=2)
        assert scene.round() == ["hold: no-idle-node"]

    @pytest.mark.parametrize("word", ["sick", "idle+ours"])
    def test_never_a_node_in_repair(self, word: str) -> None:
        scene = Scene(spec_of(load(down=Bound(5, nodes=1))), word, {"load": 4}, desired=2)
        assert not [each for each in scene.round() if each.startswith(("close", "retire"))]

    def test_ailing_nodes_go_first_then_the_oldest(self) -> None:
        scene = Scene(spec_of(load(down=Bound(5, nodes=2))), "idle idle ailing busy", {"load": 4})
        assert scene.round() == ["close i-3", "close i-1"]

    def test_a_closed_node_goes_before_one_that_is_not(self) -> None:
        scene = Scene(spec_of(load(down=Bound(5, nodes=2))), "idle ailing idle+closed busy", {"load": 4})
        assert scene.round() == ["close i-2", "retire i-3 -1", "desired 4->3"]

    def test_a_job_that_slipped_in_while_the_node_was_closed_keeps_it(self) -> None:
        scene = Scene(spec_of(load(down=Bound(5, nodes=1))), "idle busy", {"load": 4})
        assert scene.round() == ["close i-1"]
        assert scene.round("busy+closed busy") == ["hold: no-idle-node", "reopen i-1"]

    def test_returning_work_reopens_what_was_closed(self) -> None:
        scene = Scene(spec_of(load(down=Bound(5, nodes=1))), "idle busy", {"load": 4})
        assert scene.round() == ["close i-1"]
        scene.signals = {"load": 6}
        assert scene.round("idle+closed busy") == ["reopen i-1"]

    def test_a_group_that_is_no_longer_ours_gets_its_closed_nodes_back(self) -> None:
        scene = Scene(replace(SPEC, capacity=CapacityOwner.CODE), "idle+closed busy")
        assert scene.round() == ["reopen i-1"]

    def test_the_reasons_say_who_why_and_what_it_saves(self) -> None:
        scene = Scene(spec_of(load(down=Bound(5, nodes=1))), "idle idle busy", {"load": 4})
        assert scene.decide().changes[0].reason.sentence == "i-1 is idle and the oldest of the idle; load is 4, below 5"
        scene.words = "idle+closed idle busy"
        retire, resize = (change.reason for change in scene.decide().changes)
        assert retire.sentence == "i-1 was closed and is still idle; load is 4, below 5; saves 32.77 USD/h"
        assert resize.sentence == "load is 4, below 5; saves 32.77 USD/h"
        assert resize.evidence == {"signal": "load", "value": 4, "threshold": 5, "usd_per_hour": -32.7726}

    def test_an_ailing_node_is_called_ailing(self) -> None:
        scene = Scene(spec_of(load(down=Bound(5, nodes=1))), "ailing idle", {"load": 4})
        assert "i-1 is idle and ailing" in scene.decide().changes[0].reason.sentence


class TestPins:
    LATER = START + timedelta(hours=1)

    def test_a_pin_beats_signals_windows_and_cooldowns_until_it_expires(self) -> None:
        spec = spec_of(load(up=Bound(5, nodes=1)), cooldown_up=timedelta(hours=9))
        scene = Scene(replace(spec, pin=Pin(6, self.LATER, "big run")), "idle idle idle", {"load": 6})
        scene = scene.remember(last_up=START)
        assert scene.round() == ["desired 3->6"]
        assert [scene.round("idle " * 6) for _ in range(3)] == [[]] * 3
        assert scene.round(seconds=3600) == ["hold: threshold"]

    def test_the_command_lines_pin_beats_the_programs(self) -> None:
        orders = Orders(pins={"train": Pin(5, self.LATER, "now")})
        scene = Scene(replace(SPEC, pin=Pin(9, self.LATER, "declared")), "idle idle idle", orders=orders)
        assert scene.round() == ["desired 3->5"]

    def test_a_pin_outside_the_bounds_is_taken_to_the_bound(self) -> None:
        scene = Scene(replace(SPEC, pin=Pin(99, self.LATER, "all")), "idle idle idle")
        assert scene.round() == ["desired 3->10"]

    def test_a_pin_below_the_busy_nodes_takes_only_the_idle(self) -> None:
        scene = Scene(replace(SPEC, pin=Pin(1, self.LATER, "quiet")), "busy busy idle")
        assert scene.round() == ["close i-3"]
        assert scene.round("busy busy idle+closed") == ["retire i-3 -1", "desired 3->2"]
        assert scene.round("busy busy") == ["hold: no-idle-node"]

    def test_a_pause_beats_a_pin(self) -> None:
        scene = Scene(replace(SPEC, pin=Pin(9, self.LATER, "x")), "idle", orders=Orders(paused={"train": "freeze"}))
        assert scene.round() == ["hold: paused"]

    @pytest.mark.parametrize("owner", [CapacityOwner.CODE, CapacityOwner.EXTERNAL])
    def test_neither_pin_nor_signal_moves_a_size_that_is_not_ours(self, owner: CapacityOwner) -> None:
        spec = spec_of(load(up=Bound(5, nodes=1)))
        scene = Scene(replace(spec, capacity=owner, pin=Pin(9, self.LATER, "x")), "idle", {"load": 6})
        assert scene.round() == []


class TestBoundsAndOthers:
    def test_a_raised_minimum_is_filled_at_once(self) -> None:
        scene = Scene(replace(SPEC, min_size=5), "idle idle idle").remember(last_up=START)
        assert scene.round() == ["desired 3->5"]

    def test_above_a_lowered_maximum_the_number_falls_and_idle_nodes_follow_by_name(self) -> None:
        scene = Scene(replace(SPEC, max_size=2), "busy idle idle")
        assert scene.round() == ["desired 3->2"]
        assert scene.round() == ["close i-2"]
        assert scene.round("busy idle+closed idle") == ["retire i-2"]
        assert scene.round("busy leaving idle") == []

    def test_what_max_forbids_is_said(self) -> None:
        scene = Scene(replace(spec_of(QUEUE), max_size=3), "busy busy busy", {"queue": 64})
        plan = scene.decide()
        assert plan.is_empty
        assert plan.changes[0].reason.sentence == "queue is 64, above 0: 11 wanted, but max is 3"

    def test_somebody_elses_change_is_said_and_becomes_the_base(self) -> None:
        scene = Scene(spec_of(BUSY, cooldown_down=timedelta(seconds=60)), "busy busy busy", {"busy": 3})
        assert scene.round() == []
        scene.desired, scene.signals = 4, {"busy": 3}
        plan = scene.decide()
        assert plan.changes[0].reason.sentence == (
            "desired capacity was changed from 3 to 4 by someone else; 4 is the base now"
        )
        assert scene.round("busy busy busy idle") == ["hold: threshold"]  # not fought within the cooldown
        assert scene.round() == ["close i-4"]

    def test_nodes_above_a_size_that_somebody_lowered_leave_when_idle(self) -> None:
        scene = Scene(SPEC, "busy busy idle", desired=3)
        assert scene.round() == []
        scene.desired = 1
        assert scene.round() == ["hold: third-writer", "close i-3"]
        assert scene.round("busy busy idle+closed") == ["retire i-3"]
        assert scene.round("busy busy") == ["hold: no-idle-node"]

    def test_surplus_waits_for_the_cooldown(self) -> None:
        scene = Scene(spec_of(cooldown_down=timedelta(hours=1)), "busy idle", desired=1).remember(last_down=START)
        assert scene.round() == ["hold: surplus"]

    def test_a_replacement_for_nobody_is_given_back_after_the_cooldown_unless_a_signal_is_unknown(self) -> None:
        scene = Scene(spec_of(QUEUE, cooldown_down=timedelta(seconds=60)), "idle idle idle", {"queue": 0})
        scene = scene.remember(surge=1, last_down=START)
        assert scene.round() == ["hold: return-surge"]
        scene.signals = {}
        assert scene.round(seconds=60) == ["hold: return-surge"]
        scene.signals = {"queue": 0}
        assert scene.round() == ["close i-1"]
        assert scene.round("idle+closed idle idle") == ["retire i-1 -1", "desired 3->2"]
        assert scene.group.surge == 0

    def test_growing_uses_up_a_replacement_for_nobody(self) -> None:
        scene = Scene(spec_of(QUEUE), "busy busy busy", {"queue": 8}).remember(surge=1)
        assert scene.round() == ["desired 3->4"]
        assert scene.group.surge == 0

    def test_an_unknown_instance_type_has_no_price_and_no_wrong_one(self) -> None:
        spec = replace(spec_of(load(up=Bound(5, nodes=1))), instance_type="x9.huge")
        reason = Scene(spec, "idle", {"load": 6}).decide().changes[0].reason
        assert reason.sentence == "load is 6, above 5"
        assert "usd_per_hour" not in reason.evidence


def test_a_satisfied_world_gives_an_empty_plan() -> None:
    signals = (load(up=Bound(9, nodes=1), down=Bound(3, nodes=1)), BUSY)
    scene = Scene(spec_of(*signals), "busy busy busy", {"load": 5, "busy": 3})
    assert [scene.round() for _ in range(50)] == [[]] * 50


def test_without_signals_nothing_moves() -> None:
    assert Scene(SPEC, "idle busy ailing").round() == []
