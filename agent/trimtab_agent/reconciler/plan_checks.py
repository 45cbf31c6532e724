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
from trimtab_agent.reconciler.plan import Change, Cordon, Hold, Plan, Retire, SetDesired


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

    def acting(self) -> Iterator[Change]:
        """The changes that would be executed."""
        return (each for each in self.plan.changes if not isinstance(each, Hold))

    def resized(self) -> Iterator[SetDesired]:
        """The changes of desired capacity."""
        return (each for each in self.plan.changes if isinstance(each, SetDesired))

    def retired(self, group: str | None = None) -> list[Retire]:
        """The retirements, of one group or all."""
        return [each for each in self.plan.changes if isinstance(each, Retire) and group in (None, each.group)]

    def instance(self, change: Retire) -> InstanceObservation | None:
        """What was seen of a retired instance."""
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
    """I2: no more failed nodes are out at once than max(1, 10 %) or the declared budget."""
    for name, spec in case.specs.items():
        group = case.observation.groups.get(name)
        fresh = {each.instance_id for each in case.plan.changes if isinstance(each, Cordon) and each.group == name}
        out = len(fresh | set(case.history.of(name).repairs))
        allowed = max(1, (group.desired or 0) // 10 if group else 0)
        allowed = allowed if spec.repair.budget is None else spec.repair.budget
        if fresh and out > allowed:
            yield f"{name}: {out} nodes would be out, {allowed} may be"


def known_instances(case: Case) -> Iterator[str]:
    """I4: only instances that were seen in their group are retired, each once."""
    counts = Counter((each.group, each.instance_id) for each in case.retired())
    for each in case.retired():
        if case.instance(each) is None:
            yield f"{each.instance_id} was not seen in {each.group}"
        if counts[each.group, each.instance_id] > 1:
            yield f"{each.instance_id} is retired twice"


def fresh_evidence(case: Case) -> Iterator[str]:
    """I4: nothing is retired on stale or single-sample data."""
    for each in case.retired():
        seen, spec = case.instance(each), case.specs[each.group]
        silent = seen is not None and seen.report is None and seen.ec2_status is Ec2Status.IMPAIRED
        young = seen is not None and seen.report is not None and case.now - seen.report.at <= spec.scaling.stale_after
        suspect = case.history.of(each.group).suspects.get(each.instance_id)
        if not young and not silent:
            yield f"{each.instance_id} would be retired without a fresh report"
        if silent and (suspect is None or suspect.count < spec.repair.confirmations):
            yield f"{each.instance_id} would be retired after a single sample"


def cooldowns(case: Case) -> Iterator[str]:
    """I6: the group does not shrink within its cooldown, nor grow within its own, repairs and pins apart."""
    for each in case.resized():
        memory, policy = case.history.of(each.group), case.specs[each.group].scaling
        if each.reason.rule in {"replace-failed-node", "pin"}:
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
    """I13: a node with jobs, or of which that is unknown, leaves only condemned and after its drain."""
    for each in case.retired():
        seen, memory = case.instance(each), case.history.of(each.group)
        idle = seen is not None and seen.report is not None and seen.report.busy is False
        if not idle and each.instance_id not in memory.repairs:
            yield f"{each.instance_id} may have jobs and was not drained"


def witnesses(case: Case) -> Iterator[str]:
    """I15: a node is retired as failed only on two independent witnesses."""
    for each in case.retired():
        if each.reason.rule != "replace-failed-node":
            continue
        seen = case.instance(each)
        checks = seen.report.checks if seen is not None and seen.report is not None else ()
        sources = {check.witness for check in checks if check.health is HealthState.UNHEALTHY}
        silent = seen is not None and seen.report is None and seen.ec2_status is Ec2Status.IMPAIRED
        if len(sources) < 2 and not silent:
            yield f"{each.instance_id} is condemned by {len(sources)} witness"


def ownership(case: Case) -> Iterator[str]:
    """Only reconciler-owned groups are resized."""
    for each in case.resized():
        if case.specs[each.group].capacity is not CapacityOwner.RECONCILER:
            yield f"{each.group} belongs to {case.specs[each.group].capacity.value}"


def named_victims(case: Case) -> Iterator[str]:
    """A group shrinks by exactly the instances that the plan names, and moves once a round."""
    sizes = Counter(each.group for each in case.resized())
    for name in case.specs:
        named = sum(1 for each in case.retired(name) if each.decrement)
        change = next((each for each in case.resized() if each.group == name), None)
        shrink = change.observed - change.desired if change else 0
        if sizes[name] > 1:
            yield f"{name} would move {sizes[name]} times"
        if max(shrink, 0) != named:
            yield f"{name} shrinks by {max(shrink, 0)} and names {named} instances"


CHECKS: tuple[tuple[str, Callable[[Case], Iterator[str]]], ...] = (
    ("I1", bounds),
    ("I2", disruption),
    ("I4", known_instances),
    ("I4", fresh_evidence),
    ("I6", cooldowns),
    ("I11", pauses),
    ("I13", busy_nodes),
    ("I15", witnesses),
    ("ownership", ownership),
    ("named-victims", named_victims),
)


def check(case: Case) -> tuple[Violation, ...]:
    """Every invariant that the plan breaks; empty for a good plan."""
    return tuple(Violation(name, sentence) for name, function in CHECKS for sentence in function(case))
