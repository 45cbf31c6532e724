"""What to do with failed nodes: cordon and drain, replace before retiring where the group may grow, within a budget.

Only positive evidence repairs: two witnesses, in consecutive fresh observations. Many nodes condemned within a minute
are more likely one cause than many faults, and freeze repair instead (NVSentinel PR#1629, Karpenter#2811).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from trimtab.model.scaling import CapacityOwner, GroupSpec
from trimtab_agent.reconciler import evidence
from trimtab_agent.reconciler.history import GroupHistory, Repair
from trimtab_agent.reconciler.observation import GroupObservation, InstanceObservation
from trimtab_agent.reconciler.plan import Change, Cordon, Hold, Reason, Retire, SetDesired, Uncordon

RULE = "replace-failed-node"
BURST_WINDOW = timedelta(seconds=60)
BURST_SHARE = 0.2
BUDGET_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Ward:
    """Everything the repair of one group looks at."""

    spec: GroupSpec
    group: GroupObservation
    memory: GroupHistory
    desired: int
    now: datetime

    @property
    def may_surge(self) -> bool:
        """True when a replacement can come before the broken node leaves."""
        return self.spec.capacity is CapacityOwner.RECONCILER and self.desired < self.spec.max_size


def budget(spec: GroupSpec, desired: int) -> int:
    """How many nodes of a group may be out at once: declared, or max(1, 10 %) (I2)."""
    return max(1, int(desired * BUDGET_SHARE)) if spec.repair.budget is None else spec.repair.budget


def confirmed(ward: Ward) -> list[InstanceObservation]:
    """The instances that enough consecutive observations condemned, longest suspect first."""
    suspects, needed = ward.memory.suspects, ward.spec.repair.confirmations
    found = [
        each
        for each in ward.group.instances
        if each.instance_id in suspects and suspects[each.instance_id].count >= needed
    ]
    return sorted(found, key=lambda each: (suspects[each.instance_id].first_seen, each.instance_id))


def is_burst(ward: Ward, condemned: list[InstanceObservation]) -> bool:
    """True when more nodes than max(1, 20 %) were first condemned within a minute of each other."""
    times = sorted(ward.memory.suspects[each.instance_id].first_seen for each in condemned)
    allowed = max(1, int(len(ward.group.instances) * BURST_SHARE))
    return any(times[i + allowed] - times[i] <= BURST_WINDOW for i in range(len(times) - allowed))


def repairs(ward: Ward) -> Iterator[Change]:
    """This round's steps, at most one for each node."""
    if not ward.spec.repair.enabled:
        return
    condemned = confirmed(ward)
    yield from returns(ward)
    if is_burst(ward, condemned):
        yield Hold(ward.spec.name, burst_reason(condemned))
        return
    room = budget(ward.spec, ward.desired) - len(ward.memory.repairs)
    for instance in condemned:
        repair = ward.memory.repairs.get(instance.instance_id)
        if repair is not None:
            yield from step(ward, instance, repair)
        elif room > 0:
            room -= 1
            yield Cordon(ward.spec.name, instance.instance_id, drain=True, reason=condemning(ward, instance))
        else:
            yield Hold(
                ward.spec.name, Reason(RULE, f"{instance.instance_id} has failed, but the repair budget is used up")
            )


def returns(ward: Ward) -> Iterator[Change]:
    """Lift our own mark from a node that is positively well again; nobody else's (NVSentinel#1424)."""
    for each in ward.group.instances:
        report = evidence.fresh_report(each, ward.now, ward.spec.scaling.stale_after)
        if report is None or evidence.own_mark(each) is None or each.instance_id in ward.memory.suspects:
            continue
        if report.health.value in {"healthy", "degraded"}:
            sentence = f"{each.instance_id} reports {report.health.value} again"
            yield Uncordon(ward.spec.name, each.instance_id, Reason("return-node", sentence))


def step(ward: Ward, instance: InstanceObservation, repair: Repair) -> Iterator[Change]:
    """The next step for a node that is cordoned: wait for its jobs, then for its replacement, then retire it."""
    name, identity = ward.spec.name, instance.instance_id
    if not evidence.is_condemned(instance, ward.now, ward.spec.scaling.stale_after):
        yield Hold(name, Reason(RULE, f"{identity} is cordoned, but nothing fresh is known of it"))
    elif not is_drained(ward, instance, repair):
        yield Hold(name, Reason(RULE, f"{identity} is being drained; its jobs still run"))
    elif repair.surged_at is not None:
        yield from retire_replaced(ward, instance, repair.surged_at)
    elif ward.may_surge:
        reason = condemning(ward, instance, "a replacement comes first")
        yield SetDesired(name, ward.desired, ward.desired + 1, reason)
    else:
        why = condemning(ward, instance, "the group may not grow, so its place is filled after it")
        yield Retire(name, identity, decrement=False, reason=why)


def is_drained(ward: Ward, instance: InstanceObservation, repair: Repair) -> bool:
    """True when nothing runs on the node, it is dead, or the drain deadline has passed."""
    if ward.now - repair.since >= ward.spec.repair.drain_deadline:
        return True
    return instance.report is None or evidence.is_busy(instance, ward.now, ward.spec.scaling.stale_after) is False


def retire_replaced(ward: Ward, instance: InstanceObservation, surged_at: datetime) -> Iterator[Change]:
    """Retire the node once as many others are usable as the group should have, or the deadline has passed."""
    usable = sum(
        evidence.is_usable(each, ward.now, ward.spec.scaling.stale_after)
        for each in ward.group.instances
        if each.instance_id not in ward.memory.suspects
    )
    needed = ward.desired - len(ward.memory.repairs)
    late = ward.now - surged_at >= ward.spec.repair.replacement_deadline
    if usable < needed and not late:
        text = f"{instance.instance_id} waits for its replacement: {usable} of {needed} other nodes are usable"
        yield Hold(ward.spec.name, Reason(RULE, text))
        return
    what = "its replacement did not come in time" if usable < needed else "its replacement is in service"
    yield Retire(ward.spec.name, instance.instance_id, decrement=True, reason=condemning(ward, instance, what))


def condemning(ward: Ward, instance: InstanceObservation, then: str = "") -> Reason:
    """Why a node is taken out, with its witnesses."""
    sources = sorted(evidence.witnesses(instance, ward.now, ward.spec.scaling.stale_after))
    checks = [each for each in (instance.report.checks if instance.report else ()) if each.witness in sources]
    findings = "; ".join(dict.fromkeys(each.reason for each in checks if each.health.value == "unhealthy"))
    said = findings or "its agent is silent and AWS reports it impaired"
    sentence = (
        f"{instance.instance_id} has failed: {said} (witnesses: {', '.join(sources)}){f'; {then}' if then else ''}"
    )
    return Reason(RULE, sentence, {"instance": instance.instance_id, "witnesses": ", ".join(sources)})


def burst_reason(condemned: list[InstanceObservation]) -> Reason:
    """Why repair is frozen."""
    names = ", ".join(each.instance_id for each in condemned)
    sentence = (
        f"{len(condemned)} nodes failed within a minute ({names}): one cause is likelier than many; a person decides"
    )
    return Reason("correlated-faults", sentence, {"nodes": len(condemned)})
