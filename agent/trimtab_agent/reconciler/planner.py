"""The planner: a pure function from what is declared, seen and remembered to what should change.

It only composes: repair first, because a broken node is no capacity; then scaling, which never undoes a repair; then
both as one number for each group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from trimtab.model.cost import price_of
from trimtab.model.health import HealthState
from trimtab.model.scaling import CapacityOwner, GroupSpec
from trimtab_agent.reconciler import evidence, repair, scaling
from trimtab_agent.reconciler.history import GroupHistory, History, Orders
from trimtab_agent.reconciler.observation import GroupObservation, InstanceObservation, Observation
from trimtab_agent.reconciler.plan import Change, Hold, Plan, Reason, Retire, SetDesired


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan and each group's raw recommendation, which the history's windows need."""

    plan: Plan
    wants: Mapping[str, int]


def plan(
    specs: Mapping[str, GroupSpec], observation: Observation, history: History, orders: Orders, now: datetime
) -> Planned:
    """Decide one round. `history` has taken in `observation` already (see history.note).

    The same inputs give the same plan (I12); a satisfied world gives an empty one (I14).
    """
    changes: list[Change] = []
    wants: dict[str, int] = {}
    for name in sorted(specs):
        group, pause = observation.groups.get(name), orders.pause_of(name)
        if pause is not None:
            changes.append(Hold(name, Reason("paused", f"{name} is paused: {pause}")))
        elif group is None or group.problem or group.desired is None:
            problem = group.problem if group and group.problem else "not seen"
            changes.append(Hold(name, Reason("unobserved", f"{name} could not be observed: {problem}")))
        else:
            ward = repair.Ward(specs[name], group, history.of(name), group.desired, now)
            decided, wanted = _group(ward, orders)
            changes.extend(decided)
            if wanted is not None:
                wants[name] = wanted
    return Planned(Plan(now, tuple(changes)), wants)


def _group(ward: repair.Ward, orders: Orders) -> tuple[list[Change], int | None]:
    steps = list(repair.repairs(ward))
    resizing = [each for each in steps if isinstance(each, SetDesired | Retire)]
    if ward.spec.capacity is not CapacityOwner.RECONCILER:
        return steps, None
    base = ward.desired - sum(1 for each in ward.memory.repairs.values() if each.surged_at is not None)
    raw, wish = _wish(ward, orders, base)
    if resizing:
        return _one_number(ward, steps), raw.wanted
    if wish.wanted > base:
        return [*steps, _grow(ward, wish, wish.wanted - base)], raw.wanted
    if wish.wanted < base and not ward.memory.repairs:
        return [*steps, *_shrink(ward, wish)], raw.wanted
    held = [Hold(ward.spec.name, Reason(wish.reason.rule, wish.held, wish.reason.evidence))] if wish.held else []
    return [*steps, *held], raw.wanted


def _wish(ward: repair.Ward, orders: Orders, base: int) -> tuple[scaling.Wish, scaling.Wish]:
    """The raw and the steadied wish; a pin is both."""
    spec, now = ward.spec, ward.now
    pin = scaling.pinned(spec, orders, now)
    if pin is not None:
        value = min(max(pin.value, spec.min_size), spec.max_size)
        sentence = f"pinned to {pin.value} until {pin.until:%Y-%m-%d %H:%M} UTC: {pin.reason}"
        wish = scaling.Wish(value, Reason("pin", sentence, {"pin": pin.value}))
        return wish, wish
    load = scaling.Load(base, _busy(ward), sum(1 for each in ward.memory.repairs.values() if each.surged_at is None))
    votes = tuple(
        scaling.vote(signal, ward.group.signals.get(signal.name), ward.memory, load, spec, now)
        for signal in spec.scaling.signals
    )
    raw = scaling.wish(spec, votes, load)
    return raw, scaling.steadied(spec, ward.memory, raw, base, now)


def _busy(ward: repair.Ward) -> int:
    """Healthy nodes with jobs; a node of which nobody knows counts as busy."""
    stale_after = ward.spec.scaling.stale_after
    return sum(
        evidence.is_busy(each, ward.now, stale_after) is not False
        for each in evidence.in_service(ward.group)
        if each.instance_id not in ward.memory.repairs and each.report is not None
    )


def _one_number(ward: repair.Ward, steps: list[Change]) -> list[Change]:
    """Repair steps with a single final number: each group's desired capacity moves once a round."""
    surges = [each for each in steps if isinstance(each, SetDesired)]
    leaving = [each for each in steps if isinstance(each, Retire) and each.decrement]
    kept: list[Change] = [each for each in steps if not isinstance(each, SetDesired)]
    if surges and not leaving:
        return [*kept, surges[0]]
    if leaving:
        desired = ward.desired - len(leaving)
        return [*kept, SetDesired(ward.spec.name, ward.desired, desired, leaving[0].reason)]
    return kept


def _grow(ward: repair.Ward, wish: scaling.Wish, nodes: int) -> SetDesired:
    desired = min(ward.desired + nodes, ward.spec.max_size)
    return SetDesired(ward.spec.name, ward.desired, desired, _priced(ward, wish.reason, desired - ward.desired))


def _shrink(ward: repair.Ward, wish: scaling.Wish) -> list[Change]:
    """Name who leaves; without enough idle nodes the group shrinks less, or not at all."""
    chosen = victims(ward.group, ward.memory, ward.spec, ward.now)[: ward.desired - wish.wanted]
    if not chosen:
        sentence = f"{wish.reason.sentence}, but no node is known to be idle"
        return [Hold(ward.spec.name, Reason("no-idle-node", sentence, wish.reason.evidence))]
    desired = ward.desired - len(chosen)
    reason = _priced(ward, wish.reason, -len(chosen))
    leaving = [Retire(ward.spec.name, each.instance_id, decrement=True, reason=reason) for each in chosen]
    return [*leaving, SetDesired(ward.spec.name, ward.desired, desired, reason)]


def victims(group: GroupObservation, memory: GroupHistory, spec: GroupSpec, now: datetime) -> list[InstanceObservation]:
    """Idle nodes in the order in which they may leave: degraded before healthy, then the oldest.

    Never one with jobs or of which that is unknown, never one in repair or cordoned by somebody else.
    """
    stale_after = spec.scaling.stale_after
    idle = [
        each
        for each in evidence.in_service(group)
        if evidence.is_busy(each, now, stale_after) is False
        and each.instance_id not in memory.repairs
        and each.instance_id not in memory.suspects
        and each.report is not None
        and each.report.cordon is None
    ]
    return sorted(idle, key=_leaves_first)


def _leaves_first(instance: InstanceObservation) -> tuple[bool, str, str]:
    degraded = instance.report is not None and instance.report.health is not HealthState.HEALTHY
    launched = instance.launched_at.isoformat() if instance.launched_at else ""
    return (not degraded, launched, instance.instance_id)


def _priced(ward: repair.Ward, reason: Reason, nodes: int) -> Reason:
    """The reason with what the change costs or saves for each hour, where the price is known."""
    price = price_of(ward.spec.instance_type, abs(nodes))
    if price is None:
        return reason
    words = f"{'costs' if nodes > 0 else 'saves'} {price:.2f} USD/h"
    signed = price if nodes > 0 else -price
    return Reason(reason.rule, f"{reason.sentence}; {words}", {**reason.evidence, "usd_per_hour": round(signed, 4)})
