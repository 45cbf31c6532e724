"""The checks, one bad plan each: what a defective planner could ask for must be refused, and by the right invariant."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from trimtab.model.scaling import Bound, CapacityOwner, GroupSpec, RepairPolicy, ScalingPolicy, Signal
from trimtab_agent.reconciler.history import GroupHistory, History, Orders, Repair, Suspect
from trimtab_agent.reconciler.plan import Change, Cordon, Hold, Plan, Reason, Retire, SetDesired, Uncordon
from trimtab_agent.reconciler.plan_checks import CHECKS, Case, check
from trimtab_agent.simulation.scene import Scene
from trimtab_agent.simulation.world import START

LOAD = Signal("load", "promql", "q", up=Bound(5, nodes=1), down=Bound(3, nodes=1))
SPEC = GroupSpec("train", "urn:1", "asg-1", 1, 5, 3, scaling=ScalingPolicy((LOAD,)))
SCALE, REPAIR, PIN = (
    Reason("threshold", "x"),
    Reason("replace-failed-node", "x", {"instance": "i-1"}),
    Reason("pin", "x"),
)
BOUNDS, SURPLUS = Reason("bounds", "x"), Reason("surplus", "x")
PAST = GroupHistory(past={"load:down": START})
FAILED = GroupHistory(suspects={"i-1": Suspect(START, 2, 1, START)}, repairs={"i-1": Repair(START)})


def grow(observed: int, desired: int, reason: Reason = SCALE) -> SetDesired:
    return SetDesired("train", observed, desired, reason)


def retire(name: str, reason: Reason = SCALE, *, decrement: bool = True) -> Retire:
    return Retire("train", name, decrement, reason)


def cordon(name: str, reason: Reason = REPAIR) -> Cordon:
    return Cordon("train", name, drain=True, reason=reason)


def broken(
    words: str,
    *changes: Change,
    memory: GroupHistory = PAST,
    spec: GroupSpec = SPEC,
    orders: Orders | None = None,
    load: float | None = 1,
    desired: int = -1,
) -> set[str]:
    scene = Scene(spec, words, {"load": load}, desired)
    case = Case(
        Plan(START, changes),
        {"train": spec},
        scene.observation(),
        History({"train": memory}),
        orders or Orders(),
        START,
    )
    return {violation.invariant for violation in check(case)}


GOOD: list[tuple[str, tuple[Change, ...], GroupHistory]] = [
    ("idle busy", (), PAST),
    ("idle busy", (grow(2, 3),), PAST),
    ("idle+closed busy", (retire("i-1"), grow(2, 1)), PAST),
    ("idle busy", (cordon("i-1", SCALE),), PAST),
    ("idle+closed busy", (Uncordon("train", "i-1", SCALE),), PAST),
    ("sick+ours idle", (retire("i-1", REPAIR), grow(2, 1, REPAIR)), FAILED),
    ("dead idle", (retire("i-1", REPAIR, decrement=False),), replace(FAILED, repairs={})),
    ("idle busy", (Hold("train", SCALE),), GroupHistory()),
]


@pytest.mark.parametrize(("words", "changes", "memory"), GOOD)
def test_a_good_plan_breaks_nothing(words: str, changes: tuple[Change, ...], memory: GroupHistory) -> None:
    assert broken(words, *changes, memory=memory) == set()


class TestI1:
    @pytest.mark.parametrize("size", [0, 6, -1])
    def test_outside_the_bounds(self, size: int) -> None:
        assert "I1" in broken("idle busy", grow(2, size, PIN))


class TestI2:
    def test_more_nodes_of_a_group_than_its_budget(self) -> None:
        assert broken("sick sick idle", cordon("i-1"), cordon("i-2")) == {"I2"}
        assert broken("sick sick idle", cordon("i-2"), memory=FAILED) == {"I2"}

    def test_dead_nodes_count_although_nobody_cordons_them(self) -> None:
        memory = replace(FAILED, repairs={"i-2": Repair(START)})
        assert "I2" in broken("dead sick+ours idle", retire("i-1", REPAIR, decrement=False), memory=memory)
        assert "I2" in broken("dead sick+ours idle", grow(3, 4, REPAIR), memory=memory)

    def test_a_declared_budget_is_the_limit(self) -> None:
        spec = replace(SPEC, repair=RepairPolicy(budget=2))
        assert broken("sick sick idle", cordon("i-1"), cordon("i-2"), spec=spec) == set()
        assert "I2" in broken("sick idle", cordon("i-1"), spec=replace(SPEC, repair=RepairPolicy(budget=0)))

    def test_a_repair_that_goes_on_takes_nothing_out(self) -> None:
        memory = replace(FAILED, repairs={"i-1": Repair(START), "i-2": Repair(START)})
        assert broken("sick+ours sick+ours idle", cordon("i-1"), memory=memory) == set()

    def test_more_nodes_of_all_groups_than_the_common_budget(self) -> None:
        scene, other = Scene(SPEC, "sick idle"), replace(SPEC, name="serve")
        group = scene.observation().groups["train"]
        seen = replace(scene.observation(), groups={"train": group, "serve": replace(group, name="serve")})
        changes = (cordon("i-1"), Cordon("serve", "i-1", drain=True, reason=REPAIR))
        memory = History({"train": FAILED, "serve": FAILED})
        begun = History({"train": PAST, "serve": PAST})
        specs = {"train": SPEC, "serve": other}
        assert check(Case(Plan(START, changes), specs, seen, memory, Orders(), START)) == ()
        (violation,) = check(Case(Plan(START, changes), specs, seen, begun, Orders(), START))
        assert (violation.invariant, violation.sentence) == ("I2", "2 nodes of all groups would be out, 1 may be")


class TestI4:
    def test_an_instance_that_nobody_saw(self) -> None:
        assert "I4" in broken("idle busy", retire("i-9"), grow(2, 1))

    def test_an_instance_of_a_group_that_nobody_saw(self) -> None:
        other = replace(SPEC, name="serve")
        change = Retire("serve", "i-1", decrement=False, reason=SCALE)
        scene = Scene(SPEC, "idle")
        case = Case(Plan(START, (change,)), {"serve": other}, scene.observation(), History(), Orders(), START)
        assert {"I4", "I14"} <= {violation.invariant for violation in check(case)}

    def test_one_retired_twice(self) -> None:
        assert "I4" in broken("idle+closed busy", retire("i-1"), retire("i-1"), grow(2, 0))

    @pytest.mark.parametrize("word", ["silent", "stale+closed", "pending", "impaired+stale"])
    def test_without_a_fresh_report(self, word: str) -> None:
        if "impaired" not in word:
            assert "I4" in broken(f"{word} busy", retire("i-1"), grow(2, 1))

    def test_one_that_leaves_already(self) -> None:
        assert "I4" in broken("leaving+closed busy", retire("i-1"), grow(2, 1))

    @pytest.mark.parametrize("suspects", [{}, {"i-1": Suspect(START, 1, 1, START)}])
    def test_a_failure_that_was_not_confirmed(self, suspects: dict[str, Suspect]) -> None:
        memory = replace(FAILED, suspects=suspects)
        assert broken("sick+ours idle", retire("i-1", REPAIR, decrement=False), memory=memory) == {"I4"}

    @pytest.mark.parametrize("load", [None, float("nan"), float("inf")])
    def test_a_group_that_shrinks_blind(self, load: float | None) -> None:
        plan = (retire("i-1"), grow(2, 1))
        assert broken("idle+closed busy", *plan, load=load) == {"I4"}
        assert broken("idle+closed busy", grow(2, 3), load=load) == set()
        pinned = (retire("i-1", PIN), grow(2, 1, PIN))
        assert broken("idle+closed busy", *pinned, load=load) == set()

    def test_a_signal_that_was_never_read_is_blind_too(self) -> None:
        spec = replace(SPEC, scaling=ScalingPolicy((replace(LOAD, name="other"),)))
        assert broken("idle+closed busy", retire("i-1"), grow(2, 1), spec=spec) == {"I4"}


class TestI6:
    @pytest.mark.parametrize(
        ("last", "change", "bad"),
        [
            ({"last_up": START}, grow(2, 3), True),
            ({"last_down": START}, grow(2, 3), False),
            ({"last_up": START - timedelta(seconds=60)}, grow(2, 3), False),
            ({"last_up": START}, grow(2, 3, PIN), False),
            ({"last_up": START}, grow(2, 3, BOUNDS), False),
        ],
    )
    def test_growing(self, last: dict[str, object], change: SetDesired, bad: bool) -> None:
        memory = replace(PAST, **last)  # type: ignore[arg-type]  # names and values are the table's
        assert (broken("idle busy", change, memory=memory) == {"I6"}) is bad

    @pytest.mark.parametrize("last", ["last_up", "last_down"])
    def test_shrinking_after_either(self, last: str) -> None:
        memory = replace(PAST, **{last: START - timedelta(seconds=299)})  # type: ignore[arg-type]  # a field's name
        assert broken("idle+closed busy", retire("i-1"), grow(2, 1), memory=memory) == {"I6"}


@pytest.mark.parametrize("scope", ["train", "*"])
@pytest.mark.parametrize("change", [grow(2, 3), cordon("i-1", SCALE), Uncordon("train", "i-1", SCALE)])
def test_i11_anything_in_a_paused_scope(scope: str, change: Change) -> None:
    assert "I11" in broken("idle busy", change, orders=Orders(paused={scope: "freeze"}))


class TestI13:
    @pytest.mark.parametrize("word", ["busy+closed", "mute+closed", "idle", "busy"])
    def test_a_node_that_may_have_jobs_or_may_get_some(self, word: str) -> None:
        assert broken(f"{word} busy", retire("i-1"), grow(2, 1)) == {"I13"}

    def test_a_failed_node_that_was_not_drained(self) -> None:
        memory = replace(FAILED, repairs={})
        assert broken("sick+busy idle", retire("i-1", REPAIR, decrement=False), memory=memory) == {"I13"}


class TestI14:
    @pytest.mark.parametrize("change", [grow(2, 3), cordon("i-1", SCALE), Uncordon("train", "i-1", SCALE)])
    def test_a_group_of_which_nothing_asks_for_a_change(self, change: Change) -> None:
        assert "I14" in broken("idle busy", change, memory=GroupHistory())

    @pytest.mark.parametrize("memory", [PAST, FAILED, GroupHistory(surge=1)])
    def test_a_memory_may_ask(self, memory: GroupHistory) -> None:
        assert "I14" not in broken("idle busy", grow(2, 3, PIN), memory=memory)

    def test_a_size_astray_a_surplus_a_mark_and_a_pin_may_ask(self) -> None:
        nothing = GroupHistory()
        assert broken("idle " * 6, grow(6, 5, BOUNDS), memory=nothing) == set()
        assert broken("idle+closed busy", retire("i-1", SURPLUS, decrement=False), memory=nothing, desired=1) == set()
        assert broken("idle+ours busy", Uncordon("train", "i-1", SCALE), memory=nothing) == set()


@pytest.mark.parametrize("word", ["half+ours", "idle+ours"])
def test_i15_a_failed_node_with_less_than_two_witnesses(word: str) -> None:
    assert broken(f"{word} idle", retire("i-1", REPAIR, decrement=False), memory=FAILED) == {"I15"}


@pytest.mark.parametrize("change", [cordon("i-1"), Uncordon("train", "i-1", SCALE)])
def test_anything_about_a_node_that_somebody_else_cordoned(change: Change) -> None:
    assert broken("idle+theirs busy", change) == {"foreign-marks"}


@pytest.mark.parametrize("owner", [CapacityOwner.CODE, CapacityOwner.EXTERNAL])
def test_a_size_that_is_not_ours(owner: CapacityOwner) -> None:
    spec = replace(SPEC, capacity=owner)
    assert broken("idle busy", grow(2, 3), spec=spec) == {"ownership"}
    assert "ownership" in broken("sick+ours idle", retire("i-1", REPAIR), memory=FAILED, spec=spec)


class TestNamedVictims:
    def test_shrinking_without_a_name(self) -> None:
        assert broken("idle busy", grow(2, 1)) == {"named-victims"}

    def test_a_name_without_shrinking(self) -> None:
        assert broken("idle+closed busy", retire("i-1")) == {"named-victims"}

    def test_two_numbers_for_one_group(self) -> None:
        assert "named-victims" in broken("idle busy", grow(2, 3), grow(3, 4))

    def test_only_a_lowered_maximum_needs_no_name(self) -> None:
        assert broken("idle " * 6, grow(6, 5, BOUNDS)) == set()


class TestSurplus:
    def test_more_than_there_is(self) -> None:
        assert broken("idle+closed busy", retire("i-1", SURPLUS, decrement=False)) == {"surplus"}

    def test_a_node_that_scaling_takes_without_its_place(self) -> None:
        assert broken("idle+closed busy", retire("i-1", decrement=False), desired=1) == {"surplus"}


def test_each_check_says_in_its_first_line_what_must_hold() -> None:
    for name, function in CHECKS:
        sentence = (function.__doc__ or "").splitlines()[0]
        assert sentence.endswith(".")
        assert sentence.startswith(f"{name}: ") or not name.startswith("I")
