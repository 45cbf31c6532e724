"""Explanations: whole sentences with the numbers in them, and the same as data."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from trimtab.model.scaling import Bound, CapacityOwner, GroupSpec, Pin, ScalingPolicy, Signal
from trimtab_agent.reconciler import explain
from trimtab_agent.reconciler.history import GroupHistory, History, Orders, Repair, Suspect
from trimtab_agent.reconciler.observation import Observation
from trimtab_agent.reconciler.plan import Change, Cordon, Hold, Plan, Reason, Retire, SetDesired, Uncordon
from trimtab_agent.simulation.scene import Scene
from trimtab_agent.simulation.world import START

QUEUE = Signal("queue", "pending_gpus", up=Bound(0, timedelta(seconds=60), per_node=8))
BUSY = Signal("busy", "busy_nodes", down=Bound(1000, per_node=1))
SPEC = GroupSpec("train", "urn:1", "asg-1", 1, 10, 3, scaling=ScalingPolicy((QUEUE, BUSY)))
WHY = Reason("rule", "because", {"value": 1})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (SetDesired("train", 3, 5, WHY), "train: desired 3 -> 5: because"),
        (Retire("train", "i-1", True, WHY), "train: retire i-1 and shrink: because"),
        (Retire("train", "i-1", False, WHY), "train: retire i-1: because"),
        (
            Retire("train", "i-1", False, replace(WHY, rule="replace-failed-node")),
            "train: retire i-1 and refill: because",
        ),
        (Cordon("train", "i-1", True, WHY), "train: cordon and drain i-1: because"),
        (Cordon("train", "i-1", False, WHY), "train: cordon i-1: because"),
        (Uncordon("train", "i-1", WHY), "train: uncordon i-1: because"),
        (Hold("train", WHY), "train: hold: because"),
    ],
)
def test_a_change_is_one_line(change: Change, sentence: str) -> None:
    assert explain.change_sentence(change) == sentence


def test_a_plan_is_also_json() -> None:
    plan = Plan(START, (SetDesired("train", 3, 5, WHY), Cordon("train", "i-1", True, WHY)))
    shown = json.loads(json.dumps(explain.plan_json(plan)))
    assert shown["empty"] is False
    assert shown["changes"][0] == {
        "action": "SetDesired",
        "group": "train",
        "observed": 3,
        "desired": 5,
        "rule": "rule",
        "reason": "because",
        "evidence": {"value": 1},
    }
    assert shown["changes"][1]["drain"] is True
    assert explain.plan_json(Plan(START, (Hold("train", WHY),)))["empty"] is True


def test_a_groups_row_counts_what_each_node_says() -> None:
    scene = Scene(SPEC, "busy idle sick silent vague idle+theirs pending leaving")
    memory = History({"train": GroupHistory(repairs={"i-3": Repair(START)})})
    (row,) = explain.group_rows({"train": SPEC}, scene.observation(), memory, Orders())
    assert (row.in_service, row.usable, row.busy, row.unhealthy, row.unknown) == (6, 2, 1, 1, 2)
    assert row.note == "in repair: i-3; changed outside: state says 3, AWS 8"


def test_a_groups_notes_say_whatever_is_out_of_the_ordinary() -> None:
    spec = replace(SPEC, capacity=CapacityOwner.EXTERNAL, pin=Pin(4, START + timedelta(hours=1), "big run"))
    scene = Scene(spec, "idle idle idle", problem="AWS has no group asg-1")
    (row,) = explain.group_rows({"train": spec}, scene.observation(), History(), Orders(paused={"*": "freeze"}))
    assert row.note == (
        "AWS has no group asg-1; paused: freeze; pinned to 4 until 09:00 UTC: big run; owned by external"
    )


def test_a_group_that_was_not_seen_has_no_row() -> None:
    assert explain.group_rows({"train": SPEC}, Observation(START, {}), History(), Orders()) == []


def test_a_quiet_group_has_no_notes() -> None:
    (row,) = explain.group_rows({"train": SPEC}, Scene(SPEC, "idle " * 3).observation(), History(), Orders())
    assert row.note == ""


@pytest.mark.parametrize(
    ("queue", "busy", "past", "expected"),
    [
        (16, 3, 0, "queue is 16, above 0 for 0 of 60 s; it wants 3"),
        (16, 3, 60, "queue is 16, above 0 for 60 s; it wants 5"),
        (0, 3, None, "queue is 0, inside its bounds; it asks for nothing"),
        (None, 3, None, "queue is unknown (no answer); it forbids shrinking"),
    ],
)
def test_each_signal_says_what_it_wants(queue: float | None, busy: float, past: int | None, expected: str) -> None:
    scene = Scene(SPEC, "busy busy busy", {"queue": queue, "busy": busy})
    since = {} if past is None else {"queue:up": START - timedelta(seconds=past)}
    memory = History({"train": GroupHistory(past=since)})
    said = explain.signal_sentences(SPEC, scene.observation().groups["train"], memory, START)
    assert said[0] == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("busy", ["its agent says healthy (report {n}); it has jobs"]),
        ("mute", ["its agent says healthy (report {n}); it may have jobs"]),
        ("silent", ["its agent does not answer: silent; it counts as unknown"]),
        (
            "sick+theirs",
            [
                "its agent says unhealthy (report {n}); it is idle",
                "xid [kernel-log]: Xid 79 on GPU 3",
                "lost-gpu [nvml]: GPU 3 is lost",
                "cordoned by operator: under diagnosis",
            ],
        ),
    ],
)
def test_an_instance_is_told_whole(word: str, expected: list[str]) -> None:
    instance = Scene(SPEC, word).observation().groups["train"].instances[0]
    lines = explain.instance_sentences(SPEC, instance, History())
    assert lines[0] == "i-1 in train: InService, AWS status ok"
    assert lines[1:] == [line.format(n=int(START.timestamp())) for line in expected]


def test_an_instance_in_repair_says_since_when() -> None:
    instance = Scene(SPEC, "sick+ours").observation().groups["train"].instances[0]
    memory = GroupHistory(suspects={"i-1": Suspect(START, 3, 1, START)}, repairs={"i-1": Repair(START)})
    lines = explain.instance_sentences(SPEC, instance, History({"train": memory}))
    assert lines[-2:] == [
        "condemned in 3 consecutive observations, first at 08:00:00 UTC",
        "in repair since 08:00:00 UTC",
    ]
