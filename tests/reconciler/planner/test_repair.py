"""Repair, rule by rule, as scenes: the words say what the nodes are like, the lists what a round decides."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from trimtab.model.scaling import CapacityOwner, GroupSpec, Pin, RepairPolicy
from trimtab_agent.reconciler.history import Orders, Repair
from trimtab_agent.reconciler.plan import Hold
from trimtab_agent.simulation.scene import Scene

SPEC = GroupSpec("train", "urn:1", "asg-1", 1, 10, 3, instance_type="p4d.24xlarge")
FULL = replace(SPEC, max_size=3)
HELD = ["hold: replace-failed-node"]


def test_a_failed_node_is_drained_replaced_and_only_then_retired() -> None:
    scene = Scene(SPEC, "sick+busy idle idle")
    assert scene.round() == []  # one sample proves nothing
    assert scene.round() == ["drain i-1"]
    assert scene.round("sick+ours+busy idle idle") == HELD  # its job still runs
    assert scene.round("sick+ours idle idle") == ["desired 3->4"]
    assert scene.round("sick+ours idle idle pending") == HELD
    assert scene.round("sick+ours idle idle silent") == HELD  # in service, but its agent has not spoken
    assert scene.round("sick+ours idle idle idle") == ["retire i-1 -1", "desired 4->3"]
    assert scene.round("leaving idle idle idle") == []  # AWS still lists it: nothing is done twice
    assert scene.round("idle idle idle") == []


def test_where_the_group_may_not_grow_the_place_is_filled_after_the_node_left() -> None:
    scene = Scene(FULL, "sick idle idle")
    assert [scene.round(), scene.round()] == [[], ["drain i-1"]]
    assert scene.round("sick+ours idle idle") == ["retire i-1"]
    assert scene.round("leaving idle idle pending") == []


@pytest.mark.parametrize(
    ("what", "word"),
    [
        ("one witness", "half"),
        ("a silent agent", "silent"),
        ("an impaired status while the agent reports", "impaired"),
        ("a stale report", "stale"),
        ("a report from a clock that is ahead", "ahead"),
        ("a degraded node", "ailing"),
        ("unknown health", "vague"),
        ("a node that AWS does not serve yet", "pending"),
        ("a node that leaves already", "leaving"),
    ],
)
def test_nothing_is_repaired_on(what: str, word: str) -> None:
    scene = Scene(SPEC, f"{word} idle idle")
    assert [scene.round() for _ in range(5)] == [[]] * 5, what


def test_the_same_report_read_twice_is_one_observation() -> None:
    scene = Scene(SPEC, "sick idle idle")
    assert scene.round() == []
    assert scene.round(seconds=0) == []
    assert scene.round() == ["drain i-1"]


def test_a_dead_node_is_replaced_without_an_order_that_it_cannot_hear() -> None:
    scene = Scene(SPEC, "dead idle idle")
    assert scene.round() == []
    assert scene.round() == ["desired 3->4"]
    assert scene.round("dead idle idle pending") == HELD
    assert scene.round("dead idle idle idle") == ["retire i-1 -1", "desired 4->3"]


def test_a_dead_node_in_a_full_group_is_retired_at_once() -> None:
    scene = Scene(FULL, "dead idle idle")
    assert [scene.round(), scene.round()] == [[], ["retire i-1"]]


def test_a_drain_ends_at_its_deadline_even_with_jobs() -> None:
    spec = replace(FULL, repair=RepairPolicy(drain_deadline=timedelta(seconds=100)))
    scene = Scene(spec, "sick+busy idle idle")
    assert [scene.round(), scene.round()] == [[], ["drain i-1"]]
    assert scene.round("sick+ours+busy idle idle", seconds=99) == HELD
    assert scene.round(seconds=1) == ["retire i-1"]


def test_a_replacement_that_never_comes_is_not_waited_for_past_its_deadline() -> None:
    spec = replace(SPEC, repair=RepairPolicy(replacement_deadline=timedelta(seconds=100)))
    scene = Scene(spec, "dead idle idle")
    assert [scene.round(), scene.round()] == [[], ["desired 3->4"]]
    assert scene.round("dead idle idle pending", seconds=99) == HELD
    changes = scene.decide(seconds=1).changes
    assert "did not come in time" in changes[0].reason.sentence


def test_every_step_names_its_witnesses_and_its_cost() -> None:
    scene = Scene(SPEC, "sick idle idle")
    scene.round()
    cordon = scene.decide().changes[0].reason
    assert cordon.sentence == ("i-1 has failed: Xid 79 on GPU 3; GPU 3 is lost (witnesses: kernel-log, nvml)")
    assert cordon.evidence == {"instance": "i-1", "witnesses": "kernel-log, nvml"}
    scene.words = "sick+ours idle idle"
    surge = scene.decide().changes[0].reason
    assert surge.sentence.endswith("a replacement comes first; costs 32.77 USD/h")
    assert surge.evidence["usd_per_hour"] == 32.7726


class TestBudget:
    def test_one_node_at_a_time_leaves_a_small_group(self) -> None:
        scene = Scene(SPEC, "sick+busy idle idle")
        assert [scene.round(), scene.round()] == [[], ["drain i-1"]]
        assert scene.round("sick+ours+busy sick idle", seconds=90) == HELD
        assert scene.round() == HELD * 2  # i-1 drains, i-2 waits

    def test_ten_percent_of_a_large_group_may_be_out(self) -> None:
        spec = replace(SPEC, max_size=40)
        scene = Scene(spec, "sick sick " + "idle " * 18)
        assert [scene.round(), scene.round()] == [[], ["drain i-1", "drain i-2"]]

    def test_a_declared_budget_of_none_repairs_nothing(self) -> None:
        scene = Scene(replace(SPEC, repair=RepairPolicy(budget=0)), "sick idle idle")
        assert [scene.round(), scene.round()] == [[], HELD]

    def test_a_declared_budget_of_two_repairs_two(self) -> None:
        scene = Scene(replace(SPEC, repair=RepairPolicy(budget=2)), "sick idle idle idle")
        assert [scene.round(), scene.round()] == [[], ["drain i-1"]]
        assert scene.round("sick+ours+busy sick idle idle", seconds=90) == HELD
        assert scene.round() == [*HELD, "drain i-2"]

    def test_two_replaced_nodes_leave_in_one_step(self) -> None:
        spec = replace(SPEC, max_size=40, repair=RepairPolicy(budget=2))
        scene = Scene(spec, "sick+ours sick+ours " + "idle " * 10, desired=12)
        scene = scene.remember(surge=2, repairs={name: Repair(scene.now, scene.now) for name in ("i-1", "i-2")})
        assert scene.round() == [*HELD * 2]
        assert scene.round() == ["retire i-1 -1", "retire i-2 -1", "desired 12->10"]
        assert scene.group.surge == 0


class TestBounds:
    def test_a_minimum_that_was_raised_meanwhile_holds(self) -> None:
        scene = Scene(replace(SPEC, min_size=4), "sick+ours idle idle idle")
        scene = scene.remember(surge=1, repairs={"i-1": Repair(scene.now, scene.now)})
        assert scene.round() == ["hold: replace-failed-node", "desired 4->5"]
        assert scene.round("sick+ours idle idle idle idle") == ["retire i-1 -1", "desired 5->4"]

    def test_at_a_raised_minimum_the_node_is_retired_without_shrinking(self) -> None:
        scene = Scene(replace(SPEC, min_size=4, max_size=4), "sick+ours idle idle idle")
        scene = scene.remember(surge=1, repairs={"i-1": Repair(scene.now, scene.now)})
        assert scene.round() == HELD
        assert scene.round() == ["retire i-1"]


class TestWayBack:
    def test_a_node_that_is_well_again_gets_only_our_own_mark_lifted(self) -> None:
        scene = Scene(SPEC, "sick+busy idle idle")
        assert [scene.round(), scene.round()] == [[], ["drain i-1"]]
        assert scene.round("idle+ours idle+theirs idle") == ["reopen i-1"]
        assert scene.round("idle idle+theirs idle") == []
        assert scene.group.repairs == {}

    def test_recoveries_pass_while_repair_is_disabled_or_frozen(self) -> None:
        disabled = Scene(replace(SPEC, repair=RepairPolicy(enabled=False)), "idle+ours sick idle")
        assert disabled.round() == ["reopen i-1"]
        frozen = Scene(SPEC, "sick sick idle+ours")
        assert frozen.round() == ["reopen i-3"]
        assert frozen.round() == ["reopen i-3", "hold: correlated-faults"]

    @pytest.mark.parametrize("word", ["vague+ours", "half+ours", "silent", "stale+ours"])
    def test_a_node_in_repair_that_proves_nothing_waits(self, word: str) -> None:
        scene = Scene(SPEC, "sick+busy idle idle")
        assert [scene.round(), scene.round()] == [[], ["drain i-1"]]
        assert scene.round(f"{word} idle idle", seconds=300) == HELD

    def test_a_node_in_repair_whose_mark_went_and_that_is_well_is_forgotten(self) -> None:
        scene = Scene(SPEC, "sick+busy idle idle")
        assert [scene.round(), scene.round()] == [[], ["drain i-1"]]
        assert scene.round("idle idle idle") == []
        assert scene.group.repairs == {}

    def test_a_mark_that_went_while_the_node_is_still_sick_is_set_again(self) -> None:
        scene = Scene(SPEC, "sick+busy idle idle")
        assert [scene.round(), scene.round()] == [[], ["drain i-1"]]
        since = scene.group.repairs["i-1"].since
        assert scene.round() == ["drain i-1"]
        assert scene.group.repairs["i-1"].since == since


@pytest.mark.parametrize("owner", [CapacityOwner.CODE, CapacityOwner.EXTERNAL])
def test_a_size_that_is_not_ours_is_kept_while_the_node_is_replaced_in_place(owner: CapacityOwner) -> None:
    scene = Scene(replace(SPEC, capacity=owner), "sick idle idle")
    assert [scene.round(), scene.round()] == [[], ["drain i-1"]]
    assert scene.round("sick+ours idle idle") == ["retire i-1"]


def test_an_owner_that_changed_during_a_repair_keeps_the_size() -> None:
    scene = Scene(replace(SPEC, capacity=CapacityOwner.CODE), "sick+ours idle idle idle")
    scene = scene.remember(surge=1, repairs={"i-1": Repair(scene.now, scene.now)})
    assert [scene.round(), scene.round()] == [HELD, ["retire i-1"]]


def test_a_paused_group_only_says_so() -> None:
    scene = Scene(SPEC, "sick idle idle", orders=Orders(paused={"*": "freeze"}))
    assert [scene.round() for _ in range(3)] == [["hold: paused"]] * 3


def test_a_group_that_could_not_be_seen_is_left_alone() -> None:
    scene = Scene(SPEC, "sick idle idle", problem="AWS has no group asg-1")
    assert [scene.round() for _ in range(3)] == [["hold: unobserved"]] * 3


def test_nothing_is_scaled_in_during_a_repair() -> None:
    scene = Scene(SPEC, "sick+ours+busy idle idle").remember(repairs={"i-1": Repair(Scene(SPEC, "").now)})
    scene.orders = Orders(pins={"train": Pin(1, scene.now + timedelta(days=1), "quiet night")})
    assert scene.round()[-1] == "hold: repair-first"


def test_holds_are_never_executed() -> None:
    scene = Scene(SPEC, "sick idle idle", problem="gone")
    plan = scene.decide()
    assert plan.is_empty
    assert all(isinstance(change, Hold) for change in plan.changes)
