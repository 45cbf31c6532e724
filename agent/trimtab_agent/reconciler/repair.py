"""What to do with failed nodes: cordon and drain, replace before retiring where the group may grow, within a budget.

Only positive evidence repairs: two witnesses, in consecutive fresh observations. Many nodes condemned within a minute
are more likely one cause than many faults, and freeze repair instead (NVSentinel PR#1629, Karpenter#2811).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from trimtab.model.scaling import CapacityOwner, GroupSpec
from trimtab_agent.reconciler import evidence
from trimtab_agent.reconciler.history import GroupHistory, History, Repair
from trimtab_agent.reconciler.observation import GroupObservation, InstanceObservation, Observation
from trimtab_agent.reconciler.plan import REPLACE_RULE, Change, Cordon, Hold, Reason, Retire, SetDesired, Uncordon

BURST_WINDOW = timedelta(seconds=60)
BURST_SHARE = 0.2
BUDGET_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Ward:
    """Everything the repair of one group looks at. `fleet_room` is how many more nodes may go out in all groups."""

    spec: GroupSpec
    group: GroupObservation
    memory: GroupHistory
    desired: int
    now: datetime
    fleet_room: int

    @property
    def stale_after(self) -> timedelta:
        """How old a report may be to prove anything."""
        return self.spec.scaling.stale_after

    @property
    def owns_size(self) -> bool:
        """True when desired capacity is the reconciler's."""
        return self.spec.capacity is CapacityOwner.RECONCILER

    @property
    def may_surge(self) -> bool:
        """True when a replacement can come before the broken node leaves."""
        return self.owns_size and self.desired < self.spec.max_size


def budget(spec: GroupSpec, desired: int) -> int:
    """How many nodes of a group may be out at once: declared, or max(1, 10 %) (I2)."""
    return max(1, int(desired * BUDGET_SHARE)) if spec.repair.budget is None else spec.repair.budget


def fleet_room(specs: Mapping[str, GroupSpec], observation: Observation, history: History) -> int:
    """How many more nodes of all groups may go out: max(1, 10 %), or the largest budget that a group declares."""
    total = sum(group.desired or 0 for name, group in observation.groups.items() if name in specs)
    declared = max((spec.repair.budget or 0 for spec in specs.values()), default=0)
    return max(1, int(total * BUDGET_SHARE), declared) - sum(len(history.of(name).repairs) for name in specs)


def confirmed(ward: Ward) -> list[InstanceObservation]:
    """The serving instances that enough consecutive observations condemned, longest suspect first."""
    suspects, needed = ward.memory.suspects, ward.spec.repair.confirmations
    serving = [each for each in evidence.in_service(ward.group) if each.instance_id in suspects]
    found = [each for each in serving if suspects[each.instance_id].count >= needed]
    return sorted(found, key=lambda each: (suspects[each.instance_id].first_seen, each.instance_id))


def is_burst(ward: Ward) -> bool:
    """True when more than max(1, 20 %) of the reporting nodes were first condemned within a minute of each other."""
    times = sorted(each.first_seen for each in ward.memory.suspects.values())
    reporting = sum(
        evidence.fresh_report(each, ward.now, ward.stale_after) is not None for each in ward.group.instances
    )
    allowed = max(1, int(reporting * BURST_SHARE))
    return any(times[i + allowed] - times[i] <= BURST_WINDOW for i in range(len(times) - allowed))


def repairs(ward: Ward) -> Iterator[Change]:
    """This round's steps, at most one for each node; recoveries pass whatever else is frozen (I16)."""
    yield from returns(ward)
    if not ward.spec.repair.enabled:
        return
    condemned = confirmed(ward)
    if condemned and is_burst(ward):
        yield Hold(ward.spec.name, burst_reason(ward))
        return
    yield from lost_sight(ward, condemned)
    room = min(budget(ward.spec, ward.desired) - len(ward.memory.repairs), ward.fleet_room)
    for instance in condemned:
        repair = ward.memory.repairs.get(instance.instance_id)
        if repair is None and room <= 0:
            text = f"{instance.instance_id} has failed, but the repair budget is used up"
            yield Hold(ward.spec.name, Reason(REPLACE_RULE, text))
            continue
        room -= repair is None
        yield from treat(ward, instance, repair)


def returns(ward: Ward) -> Iterator[Change]:
    """Lift our own mark from a node that is positively well again; nobody else's (NVSentinel#1424)."""
    for each in evidence.in_service(ward.group):
        ours = evidence.own_mark(each) is not None and not evidence.is_closed(each)
        well = evidence.is_well(each, ward.now, ward.stale_after)
        if ours and well and each.instance_id not in ward.memory.suspects:
            sentence = f"{each.instance_id} reports that it is well again"
            yield Uncordon(ward.spec.name, each.instance_id, Reason("return-node", sentence))


def lost_sight(ward: Ward, condemned: list[InstanceObservation]) -> Iterator[Change]:
    """Say which nodes in repair neither prove that they are broken nor that they are well."""
    known = {each.instance_id for each in condemned}
    for each in evidence.in_service(ward.group):
        ours, well = each.instance_id in ward.memory.repairs, evidence.is_well(each, ward.now, ward.stale_after)
        if ours and not well and each.instance_id not in known:
            text = f"{each.instance_id} is in repair, but is not known to be broken or well"
            yield Hold(ward.spec.name, Reason(REPLACE_RULE, text))


def treat(ward: Ward, instance: InstanceObservation, repair: Repair | None) -> Iterator[Change]:
    """Mark a condemned node as ours and go on with it. A dead one hears no order, and has no jobs to drain."""
    name, identity = ward.spec.name, instance.instance_id
    foreign = evidence.foreign_mark(instance)
    if foreign is not None:
        text = f"{identity} has failed, but {foreign.owner} cordoned it: {foreign.reason}"
        yield Hold(name, Reason(REPLACE_RULE, text))
    elif not evidence.is_condemned(instance, ward.now, ward.stale_after):
        yield Hold(name, Reason(REPLACE_RULE, f"{identity} was condemned, but nothing fresh is known of it"))
    elif evidence.is_dead(instance) or (repair is not None and evidence.own_mark(instance)):
        yield from step(ward, instance, repair or Repair(ward.now))
    else:
        yield Cordon(name, identity, drain=True, reason=condemning(ward, instance))


def step(ward: Ward, instance: InstanceObservation, repair: Repair) -> Iterator[Change]:
    """The next step for a node that is cordoned: wait for its jobs, then for its replacement, then retire it."""
    name, identity = ward.spec.name, instance.instance_id
    if not is_drained(ward, instance, repair):
        yield Hold(name, Reason(REPLACE_RULE, f"{identity} is being drained; its jobs still run"))
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
    if evidence.is_dead(instance) or ward.now - repair.since >= ward.spec.repair.drain_deadline:
        return True
    return evidence.is_busy(instance, ward.now, ward.stale_after) is False


def retire_replaced(ward: Ward, instance: InstanceObservation, surged_at: datetime) -> Iterator[Change]:
    """Retire the node once as many others are usable as the group should have, or the deadline has passed."""
    sick = ward.memory.suspects.keys() | ward.memory.repairs.keys()
    usable = sum(
        evidence.is_usable(each, ward.now, ward.stale_after)
        for each in ward.group.instances
        if each.instance_id not in sick
    )
    needed = ward.desired - len(sick)
    if usable < needed and ward.now - surged_at < ward.spec.repair.replacement_deadline:
        text = f"{instance.instance_id} waits for its replacement: {usable} of {needed} other nodes are usable"
        yield Hold(ward.spec.name, Reason(REPLACE_RULE, text))
        return
    what = "its replacement did not come in time" if usable < needed else "its replacement is in service"
    reason = condemning(ward, instance, what)
    yield Retire(ward.spec.name, instance.instance_id, decrement=ward.owns_size, reason=reason)


def condemning(ward: Ward, instance: InstanceObservation, then: str = "") -> Reason:
    """Why a node is taken out, with its witnesses."""
    sources = sorted(evidence.witnesses(instance, ward.now, ward.stale_after))
    checks = [each for each in (instance.report.checks if instance.report else ()) if each.witness in sources]
    findings = "; ".join(dict.fromkeys(each.reason for each in checks if each.health.value == "unhealthy"))
    said = findings or "its agent is silent and AWS reports it impaired"
    sentence = (
        f"{instance.instance_id} has failed: {said} (witnesses: {', '.join(sources)}){f'; {then}' if then else ''}"
    )
    return Reason(REPLACE_RULE, sentence, {"instance": instance.instance_id, "witnesses": ", ".join(sources)})


def burst_reason(ward: Ward) -> Reason:
    """Why repair is frozen."""
    names = sorted(ward.memory.suspects)
    sentence = (
        f"{len(names)} nodes failed close together ({', '.join(names)}): "
        "one cause is likelier than many, so a person decides"
    )
    return Reason("correlated-faults", sentence, {"nodes": len(names)})
