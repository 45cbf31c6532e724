"""Invariants that any plan must obey, apart from the planner so that one mistake cannot hide in both.

Each check has an id from the design's list, a sentence, and a function that yields what breaks it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from trimtab.model.health import HealthState
from trimtab.model.scaling import CapacityOwner, GroupSpec
from trimtab_agent.reconciler.history import History, Orders
from trimtab_agent.reconciler.observation import Ec2Status, InstanceObservation, Observation
from trimtab_agent.reconciler.plan import (
    BOUNDS_RULE,
    PIN_RULE,
    REPLACE_RULE,
    SURPLUS_RULE,
    Cordon,
    Hold,
    Plan,
    Retire,
    SetDesired,
    Uncordon,
)

OWNER = "trimtab-reconciler"
MEASURED = frozenset({"threshold", "return-surge"})


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that a plan breaks, and how."""

    invariant: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Case:
    """A plan with everything that it was made from."""

    plan: Plan
    specs: Mapping[str, GroupSpec]
    observation: Observation
    history: History
    orders: Orders
    now: datetime

    def acting(self) -> Iterator[SetDesired | Retire | Cordon | Uncordon]:
        """The changes that would be executed."""
        return (each for each in self.plan.changes if not isinstance(each, Hold))

    def resized(self) -> Iterator[SetDesired]:
        """The changes of desired capacity."""
        return (each for each in self.plan.changes if isinstance(each, SetDesired))

    def retired(self, group: str | None = None) -> list[Retire]:
        """The retirements, of one group or all."""
        return [each for each in self.plan.changes if isinstance(each, Retire) and group in (None, each.group)]

    def taken_out(self, group: str) -> set[str]:
        """The failed nodes of a group that this plan begins to take out."""
        own = [each for each in self.acting() if each.group == group and each.reason.rule == REPLACE_RULE]
        named = {str(getattr(each, "instance_id", each.reason.evidence.get("instance"))) for each in own}
        return named - self.history.of(group).repairs.keys()

    def out(self, group: str) -> set[str]:
        """The failed nodes of a group that are out, this plan's included."""
        return self.taken_out(group) | self.history.of(group).repairs.keys()

    def size(self, group: str) -> int:
        """A group's capacity as it was seen."""
        seen = self.observation.groups.get(group)
        return (seen.desired or 0) if seen is not None else 0

    def serving(self, group: str) -> int:
        """How many instances of a group serve."""
        seen = self.observation.groups.get(group)
        return sum(each.lifecycle == "InService" for each in seen.instances) if seen is not None else 0

    def instance(self, change: Retire | Cordon | Uncordon) -> InstanceObservation | None:
        """What was seen of the instance that a change is about."""
        group = self.observation.groups.get(change.group)
        instances = group.instances if group else ()
        return next((each for each in instances if each.instance_id == change.instance_id), None)


def bounds(case: Case) -> Iterator[str]:
    """I1: desired stays within [min, max]."""
    for each in case.resized():
        spec = case.specs[each.group]
        if not spec.min_size <= each.desired <= spec.max_size:
            yield f"{each.group}: {each.desired} lies outside [{spec.min_size}, {spec.max_size}]"


def disruption(case: Case) -> Iterator[str]:
    """I2: failed nodes out at once stay within max(1, 10 %) or the declared budget, in each group and in all."""
    out = {name: case.out(name) for name in case.specs}
    sizes = {name: case.size(name) for name in case.specs}
    for name, spec in case.specs.items():
        allowed = max(1, sizes[name] // 10) if spec.repair.budget is None else spec.repair.budget
        if case.taken_out(name) and len(out[name]) > allowed:
            yield f"{name}: {len(out[name])} nodes would be out, {allowed} may be"
    declared = max((spec.repair.budget or 0 for spec in case.specs.values()), default=0)
    everywhere, allowed = sum(map(len, out.values())), max(1, sum(sizes.values()) // 10, declared)
    if any(case.taken_out(name) for name in case.specs) and everywhere > allowed:
        yield f"{everywhere} nodes of all groups would be out, {allowed} may be"


def known_instances(case: Case) -> Iterator[str]:
    """I4: only instances that were seen in their group are retired, each once."""
    counts = Counter((each.group, each.instance_id) for each in case.retired())
    for each in case.retired():
        if case.instance(each) is None:
            yield f"{each.instance_id} was not seen in {each.group}"
        if counts[each.group, each.instance_id] > 1:
            yield f"{each.instance_id} is retired twice"


def fresh_evidence(case: Case) -> Iterator[str]:
    """I4: nothing is retired on stale or single-sample data, nor one that leaves already."""
    for each in case.retired():
        seen, spec = case.instance(each), case.specs[each.group]
        young = seen is not None and seen.report is not None and case.now - seen.report.at <= spec.scaling.stale_after
        suspect = case.history.of(each.group).suspects.get(each.instance_id)
        confirmed = suspect is not None and suspect.count >= spec.repair.confirmations
        if not young and not is_dead(seen):
            yield f"{each.instance_id} would be retired without a fresh report"
        if each.reason.rule == REPLACE_RULE and not confirmed:
            yield f"{each.instance_id} would be retired before it was confirmed as failed"
        if seen is not None and seen.lifecycle != "InService":
            yield f"{each.instance_id} is {seen.lifecycle} already"


def blind_groups(case: Case) -> Iterator[str]:
    """I4: a group of which a signal is missing, stale or not a number does not shrink, pins and bounds apart."""
    for each in case.resized():
        group, limit = case.observation.groups[each.group], case.specs[each.group].scaling.stale_after
        if each.desired > each.observed or each.reason.rule not in MEASURED:
            continue
        for signal in case.specs[each.group].scaling.signals:
            sample = group.signals.get(signal.name)
            value, at = (sample.value, sample.at) if sample is not None else (None, None)
            if value is None or value - value != 0 or at is None or case.now - at > limit:
                yield f"{each.group} would shrink although {signal.name} is unknown"


def cooldowns(case: Case) -> Iterator[str]:
    """I6: the group does not shrink within its cooldown, nor grow within its own, repairs, pins and bounds apart."""
    for each in case.resized():
        memory, policy = case.history.of(each.group), case.specs[each.group].scaling
        if each.reason.rule in {REPLACE_RULE, PIN_RULE, BOUNDS_RULE}:
            continue
        grows = each.desired > each.observed
        limit = policy.cooldown_up if grows else policy.cooldown_down
        for last in (memory.last_up, None if grows else memory.last_down):
            if last is not None and case.now - last < limit:
                yield f"{each.group} changed {(case.now - last).total_seconds():.0f} s ago"


def pauses(case: Case) -> Iterator[str]:
    """I11: a paused scope never changes."""
    for each in case.acting():
        if case.orders.pause_of(each.group) is not None:
            yield f"{each.group} is paused"


def busy_nodes(case: Case) -> Iterator[str]:
    """I13: a node leaves idle and closed to new work, or condemned and drained, or it is dead."""
    for each in case.retired():
        seen, memory = case.instance(each), case.history.of(each.group)
        report = seen.report if seen is not None else None
        closed = report is not None and report.busy is False and report.cordon is not None
        if not closed and each.instance_id not in memory.repairs and not is_dead(seen):
            yield f"{each.instance_id} may have jobs and was not closed to new work"


def foreign_marks(case: Case) -> Iterator[str]:
    """Nothing happens to a node that somebody else cordoned."""
    for each in case.acting():
        if isinstance(each, SetDesired):
            continue
        seen = case.instance(each)
        mark = seen.report.cordon if seen is not None and seen.report is not None else None
        if mark is not None and mark.owner != OWNER:
            yield f"{each.instance_id} is cordoned by {mark.owner}"


def witnesses(case: Case) -> Iterator[str]:
    """I15: a node is retired as failed only on two independent witnesses."""
    for each in case.retired():
        if each.reason.rule != REPLACE_RULE:
            continue
        seen = case.instance(each)
        checks = seen.report.checks if seen is not None and seen.report is not None else ()
        sources = {check.witness for check in checks if check.health is HealthState.UNHEALTHY}
        if len(sources) < 2 and not is_dead(seen):
            yield f"{each.instance_id} is condemned by {len(sources)} witness"


def is_dead(seen: InstanceObservation | None) -> bool:
    """A silent agent and AWS's own impaired status are two witnesses as well."""
    return seen is not None and seen.report is None and seen.ec2_status is Ec2Status.IMPAIRED


def satisfied_groups(case: Case) -> Iterator[str]:
    """I14: nothing is done to a group of which nothing asks for a change."""
    for name in sorted({each.group for each in case.acting()}):
        if name not in case.observation.groups or not wants_something(case, name):
            yield f"{name} is as it should be"


def wants_something(case: Case, name: str) -> bool:
    """Whether anything at all could ask for a change of a group."""
    spec, group, memory = case.specs[name], case.observation.groups[name], case.history.of(name)
    marked = any(each.report is not None and each.report.cordon is not None for each in group.instances)
    astray = group.desired is None or not spec.min_size <= group.desired <= spec.max_size
    pinned = spec.pin is not None or name in case.orders.pins
    surplus = case.serving(name) > (group.desired or 0)
    asked = memory.past or memory.suspects or memory.repairs or memory.surge
    return bool(asked or marked or astray or pinned or surplus)


def ownership(case: Case) -> Iterator[str]:
    """Only reconciler-owned groups are resized, by number or by name."""
    sized: list[SetDesired | Retire] = [*case.resized(), *(each for each in case.retired() if each.decrement)]
    for each in sized:
        if case.specs[each.group].capacity is not CapacityOwner.RECONCILER:
            yield f"{each.group} belongs to {case.specs[each.group].capacity.value}"


def surplus(case: Case) -> Iterator[str]:
    """A node that is not failed leaves without its place only where more serve than desired capacity says."""
    for name in case.specs:
        gone = [each for each in case.retired(name) if not each.decrement and each.reason.rule != REPLACE_RULE]
        allowed = max(case.serving(name) - case.size(name), 0)
        if len(gone) > allowed or any(each.reason.rule != SURPLUS_RULE for each in gone):
            yield f"{name}: {len(gone)} nodes would leave as surplus, {allowed} are"


def named_victims(case: Case) -> Iterator[str]:
    """A group shrinks by exactly the instances that the plan names, except into its bounds, and moves once a round."""
    sizes = Counter(each.group for each in case.resized())
    for name in case.specs:
        named = sum(1 for each in case.retired(name) if each.decrement)
        change = next((each for each in case.resized() if each.group == name), None)
        shrink = change.observed - change.desired if change else 0
        if sizes[name] > 1:
            yield f"{name} would move {sizes[name]} times"
        lowered = change is not None and change.reason.rule == BOUNDS_RULE
        if max(shrink, 0) != named and not lowered:
            yield f"{name} shrinks by {max(shrink, 0)} and names {named} instances"


CHECKS: tuple[tuple[str, Callable[[Case], Iterator[str]]], ...] = (
    ("I1", bounds),
    ("I2", disruption),
    ("I4", known_instances),
    ("I4", fresh_evidence),
    ("I4", blind_groups),
    ("I6", cooldowns),
    ("I11", pauses),
    ("I13", busy_nodes),
    ("I14", satisfied_groups),
    ("I15", witnesses),
    ("foreign-marks", foreign_marks),
    ("ownership", ownership),
    ("named-victims", named_victims),
    ("surplus", surplus),
)


def check(case: Case) -> tuple[Violation, ...]:
    """Every invariant that the plan breaks; empty for a good plan."""
    return tuple(Violation(name, sentence) for name, function in CHECKS for sentence in function(case))
