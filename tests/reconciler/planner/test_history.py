"""The planner's memory: what it takes in, and that the journal keeps it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from trimtab.model.scaling import GroupSpec, ScalingPolicy
from trimtab_agent.reconciler import history
from trimtab_agent.reconciler.history import GroupHistory, History, Orders, Repair, Suspect
from trimtab_agent.reconciler.plan import Cordon, Plan, Reason, Retire, SetDesired
from trimtab_agent.simulation.scene import Scene
from trimtab_agent.simulation.world import START

SPEC = GroupSpec("train", "urn:1", "asg-1", 1, 10, 3)
REPAIR = Reason("replace-failed-node", "i-1 has failed", {"instance": "i-1"})
FULL = GroupHistory(
    last_up=START,
    last_down=START,
    wants=((START, 3),),
    past={"load:up": START},
    suspects={"i-1": Suspect(START, 2, 7, START)},
    repairs={"i-1": Repair(START, START), "i-2": Repair(START)},
    surge=1,
    desired=4,
    outside=(3, 4),
)


def noted(memory: GroupHistory, words: str, desired: int = -1, spec: GroupSpec = SPEC) -> GroupHistory:
    scene = Scene(spec, words, desired=desired)
    return history.note(History({"train": memory}), {"train": spec}, scene.observation()).of("train")


def test_a_history_is_the_same_after_the_journal() -> None:
    memory = History({"train": replace(FULL, intended=replace(FULL, desired=5)), "serve": GroupHistory()})
    assert history.from_json(json.loads(json.dumps(history.to_json(memory)))) == memory


def test_a_history_of_an_older_version_lacks_fields_and_is_read_all_the_same() -> None:
    old = {"train": {"suspects": {"i-1": {"first_seen": START.isoformat(), "count": 2, "sequence": 7}}}}
    assert history.from_json(old).of("train") == GroupHistory(suspects={"i-1": Suspect(START, 2, 7, START)})
    assert history.from_json({"train": {"repairs": {"i-1": {"since": START.isoformat()}}, "later": 1}}).of(
        "train"
    ).repairs == {"i-1": Repair(START)}


def test_groups_that_are_no_longer_declared_are_forgotten_and_unseen_ones_are_kept() -> None:
    before = History({"gone": FULL, "train": FULL})
    scene = Scene(SPEC, "idle", problem="no answer")
    assert history.note(before, {"train": SPEC}, scene.observation()).groups == {"train": FULL}


def test_the_windows_are_as_long_as_the_policy_says() -> None:
    old = tuple((START - timedelta(hours=hours), hours) for hours in (3, 2, 1))
    long = replace(SPEC, scaling=ScalingPolicy(stabilization_down=timedelta(hours=2)))
    assert noted(GroupHistory(wants=old), "idle", spec=long).wants == old[1:]
    assert noted(GroupHistory(wants=old), "idle idle").wants == ((START, 2),)


class TestOutside:
    def test_the_first_look_is_nobodys_change(self) -> None:
        memory = noted(GroupHistory(), "idle idle")
        assert (memory.desired, memory.outside) == (2, None)

    def test_a_higher_number_keeps_what_repair_asked_for(self) -> None:
        memory = noted(replace(FULL, desired=4), "sick+ours idle", desired=6)
        assert (memory.outside, memory.surge, memory.last_down) == ((4, 6), 1, START)
        assert memory.repairs["i-1"].surged_at == START

    def test_a_lower_number_took_what_repair_asked_for(self) -> None:
        memory = noted(replace(FULL, desired=4), "sick+ours idle", desired=3)
        assert (memory.outside, memory.surge, memory.repairs["i-1"].surged_at) == ((4, 3), 0, None)


class TestInterrupted:
    SURGE = Plan(START, (SetDesired("train", 3, 4, REPAIR),))

    def interrupted(self) -> GroupHistory:
        before = History({"train": replace(GroupHistory(), desired=3, repairs={"i-1": Repair(START)})})
        return history.intend(before, self.SURGE, {"train": 3}, START).of("train")

    def test_an_update_that_went_through_is_ours(self) -> None:
        memory = noted(self.interrupted(), "sick+ours idle idle pending")
        assert (memory.outside, memory.surge, memory.repairs["i-1"].surged_at) == (None, 1, START)

    def test_one_that_did_not_is_forgotten(self) -> None:
        memory = noted(self.interrupted(), "sick+ours idle idle")
        assert (memory.outside, memory.surge, memory.intended) == (None, 0, None)

    def test_another_number_is_somebody_elses(self) -> None:
        memory = noted(self.interrupted(), "sick+ours idle idle", desired=7)
        assert (memory.outside, memory.surge) == ((3, 7), 0)


class TestRecord:
    def recorded(self, before: GroupHistory, *changes: SetDesired | Retire | Cordon) -> GroupHistory:
        return history.record(History({"train": before}), Plan(START, changes), {}, START).of("train")

    def test_only_a_failed_nodes_cordon_begins_a_repair(self) -> None:
        close = Cordon("train", "i-1", drain=False, reason=Reason("close-node", "may leave"))
        assert self.recorded(GroupHistory(), close) == GroupHistory()
        assert self.recorded(GroupHistory(), Cordon("train", "i-1", drain=True, reason=REPAIR)).repairs == {
            "i-1": Repair(START)
        }

    def test_the_last_step_of_a_repair_ends_it_and_asks_for_nothing(self) -> None:
        before = replace(FULL, last_down=None)
        after = self.recorded(before, Retire("train", "i-1", True, REPAIR), SetDesired("train", 4, 3, REPAIR))
        assert (after.surge, after.desired, after.last_down) == (0, 3, None)
        assert after.repairs == {"i-2": Repair(START)}

    def test_a_group_never_seen_can_be_recorded(self) -> None:
        after = history.record(
            History(), Plan(START, (SetDesired("new", 1, 2, Reason("pin", "x")),)), {"new": 2}, START
        )
        assert (after.of("new").last_up, after.of("new").wants) == (START, ((START, 2),))


def test_a_groups_own_pause_comes_before_the_pause_of_all() -> None:
    orders = Orders(paused={"train": "mine", "*": "all"})
    assert [orders.pause_of("train"), orders.pause_of("serve")] == ["mine", "all"]
    assert Orders().pause_of("train") is None
