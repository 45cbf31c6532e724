"""The planner: a pure function from what is declared, seen and remembered to what should change.

It only composes: repair first, because a broken node is no capacity; then scaling, which never undoes a repair; then
both as one number for each group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from trimtab.model.cost import price_of
from trimtab.model.scaling import GroupSpec
from trimtab_agent.reconciler import evidence, repair, scaling
from trimtab_agent.reconciler.history import History, Orders
from trimtab_agent.reconciler.observation import GroupObservation, InstanceObservation, Observation
from trimtab_agent.reconciler.plan import (
    BOUNDS_RULE,
    PIN_RULE,
    REPLACE_RULE,
    SURPLUS_RULE,
    Change,
    Cordon,
    Hold,
    Plan,
    Reason,
    Retire,
    SetDesired,
    Uncordon,
)
from trimtab_agent.reconciler.repair import Ward
from trimtab_agent.reconciler.scaling import Wish
from trimtab_agent.reconciler.victims import victims, why


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
    room = repair.fleet_room(specs, observation, history)
    for name in sorted(specs):
        group = observation.groups.get(name)
        obstacle = _obstacle(name, group, orders)
        if obstacle is not None or group is None or group.desired is None:
            changes += [Hold(name, obstacle or Reason("unobserved", f"{name} could not be observed"))]
            continue
        ward = Ward(specs[name], group, history.of(name), group.desired, now, room)
        decided, wanted = _group(ward, orders)
        changes += decided
        room -= len(_taken_out(decided) - ward.memory.repairs.keys())
        wants |= {} if wanted is None else {name: wanted}
    return Planned(Plan(now, tuple(changes)), wants)


def _obstacle(name: str, group: GroupObservation | None, orders: Orders) -> Reason | None:
    """What keeps a group from being planned at all (I11, I4)."""
    pause = orders.pause_of(name)
    if pause is not None:
        return Reason("paused", f"{name} is paused: {pause}")
    if group is not None and group.problem:
        return Reason("unobserved", f"{name} could not be observed: {group.problem}")
    return None


def _taken_out(changes: list[Change]) -> set[str]:
    """The failed nodes that these changes begin or go on to take out."""
    own = [each for each in changes if each.reason.rule == REPLACE_RULE]
    return {str(each.reason.evidence["instance"]) for each in own if isinstance(each, Cordon | Retire | SetDesired)}


def _group(ward: Ward, orders: Orders) -> tuple[list[Change], int | None]:
    steps = list(repair.repairs(ward))
    if not ward.owns_size:
        return [*steps, *_reopened(ward, steps)], None
    if ward.desired > ward.spec.max_size:
        changes = _lowered(ward, steps)
        return [*_outside(ward), *changes, *_reopened(ward, changes)], ward.spec.max_size
    base = ward.desired - ward.memory.surge
    raw, wish = _wish(ward, orders, base)
    if any(isinstance(each, SetDesired | Retire) for each in steps):
        changes = _one_number(ward, steps)
    else:
        changes = [*steps, *_resized(ward, wish, base)]
    return [*_outside(ward), *changes, *_reopened(ward, changes)], raw.wanted


def _lowered(ward: Ward, steps: list[Change]) -> list[Change]:
    """Lower a size above max as it is, before all else; AWS takes no protected node, so the surplus leaves by name."""
    kept = [each for each in steps if not isinstance(each, SetDesired | Retire)]
    sentence = f"{ward.desired} nodes are more than max, which is {ward.spec.max_size}"
    reason = Reason(BOUNDS_RULE, sentence, {"max": ward.spec.max_size})
    return [*kept, SetDesired(ward.spec.name, ward.desired, ward.spec.max_size, reason)]


def _reopened(ward: Ward, changes: list[Change]) -> list[Change]:
    """Give nodes that were closed to leave, and need not leave any more, back to the scheduler."""
    staying = {each.instance_id: each for each in evidence.in_service(ward.group) if evidence.is_closed(each)}
    for change in changes:
        if isinstance(change, Cordon | Retire):
            staying.pop(change.instance_id, None)
    reason = Reason("reopen-node", "the group shrinks no further, so the node takes work again")
    return [Uncordon(ward.spec.name, name, reason) for name in staying if name not in ward.memory.suspects]


def _outside(ward: Ward) -> list[Change]:
    """Report somebody else's change of capacity; it is the new base, not an enemy."""
    if ward.memory.outside is None:
        return []
    before, after = ward.memory.outside
    sentence = f"desired capacity was changed from {before} to {after} by someone else; {after} is the base now"
    return [Hold(ward.spec.name, Reason("third-writer", sentence, {"before": before, "after": after}))]


def _wish(ward: Ward, orders: Orders, base: int) -> tuple[Wish, Wish]:
    """The raw and the steadied wish. A pin, or a size below min, is both: nothing may hold it up."""
    spec, now = ward.spec, ward.now
    pin, inside = scaling.pinned(spec, orders, now), scaling.clamped(spec, base)
    if pin is not None:
        sentence = f"pinned to {pin.value} until {pin.until:%Y-%m-%d %H:%M} UTC: {pin.reason}"
        wish = Wish(scaling.clamped(spec, pin.value), Reason(PIN_RULE, sentence, {"pin": pin.value}))
        return wish, wish
    if inside > base:
        sentence = f"{base} nodes are fewer than min, which is {spec.min_size}"
        wish = Wish(inside, Reason(BOUNDS_RULE, sentence, {"min": spec.min_size}))
        return wish, wish
    load = scaling.load_of(spec, ward.group, ward.memory, now)
    votes = tuple(
        scaling.vote(signal, ward.group.signals.get(signal.name), ward.memory, load, spec, now)
        for signal in spec.scaling.signals
    )
    raw = scaling.wish(spec, votes, load)
    return raw, scaling.steadied(spec, ward.memory, raw, base, now)


def _resized(ward: Ward, wish: Wish, base: int) -> list[Change]:
    """The steps from what is there to the wish; replacements on their way come on top of it."""
    name, target = ward.spec.name, min(wish.wanted + ward.memory.surged, ward.spec.max_size)
    if target > ward.desired:
        reason = _priced(ward, wish.reason, target - ward.desired)
        return [SetDesired(name, ward.desired, target, reason)]
    if target < ward.desired and ward.memory.repairs:
        text = f"{wish.reason.sentence}: {wish.wanted} wanted, but nothing shrinks during a repair"
        return [Hold(name, Reason("repair-first", text, wish.reason.evidence))]
    if target < ward.desired:
        return _shrunk(ward, wish if wish.wanted < base else _spare(ward, wish), ward.desired - target)
    surplus = len(evidence.in_service(ward.group)) - ward.desired
    if surplus > 0 and not ward.memory.repairs:
        return _shrunk(ward, _surplus(ward), surplus)
    return [Hold(name, Reason(wish.reason.rule, wish.held, wish.reason.evidence))] if wish.held else []


def _spare(ward: Ward, wish: Wish) -> Wish:
    """The wish to give back a replacement whose node came back or went by itself."""
    sentence = "a node that was ordered as a replacement is no longer needed"
    return _at_leisure(ward, Reason("return-surge", sentence), "a signal is unknown" if wish.blind else None)


def _surplus(ward: Ward) -> Wish:
    """The wish to lose nodes that AWS keeps above desired capacity, because we protect them from its choice."""
    serving = len(evidence.in_service(ward.group))
    sentence = f"{serving} nodes serve although desired capacity is {ward.desired}"
    return _at_leisure(ward, Reason(SURPLUS_RULE, sentence, {"serving": serving, "desired": ward.desired}), None)


def _at_leisure(ward: Ward, reason: Reason, obstacle: str | None) -> Wish:
    """A wish that no signal asked for: it waits for the cooldown."""
    obstacle = obstacle or scaling.cooling(ward.spec, ward.memory, ward.now, grows=False)
    return Wish(ward.desired, reason, f"{reason.sentence}, but {obstacle}" if obstacle else None)


def _shrunk(ward: Ward, wish: Wish, nodes: int) -> list[Change]:
    """Name who leaves, and close them first; without enough idle nodes the group shrinks less, or not at all."""
    if wish.held and wish.reason.rule in {"return-surge", SURPLUS_RULE}:
        return [Hold(ward.spec.name, replace(wish.reason, sentence=wish.held))]
    chosen = victims(ward.group, ward.memory, ward.spec, ward.now)[:nodes]
    if not chosen:
        sentence = f"{wish.reason.sentence}, but no node is known to be idle"
        return [Hold(ward.spec.name, Reason("no-idle-node", sentence, wish.reason.evidence))]
    closed = [each for each in chosen if evidence.is_closed(each)]
    closing = [_closing(ward, wish, each) for each in chosen if not evidence.is_closed(each)]
    return [*closing, *(_left(ward, wish, closed) if closed else [])]


def _closing(ward: Ward, wish: Wish, instance: InstanceObservation) -> Cordon:
    reason = replace(wish.reason, rule="close-node", sentence=f"{why(instance)}; {wish.reason.sentence}")
    return Cordon(ward.spec.name, instance.instance_id, drain=False, reason=reason)


def _left(ward: Ward, wish: Wish, closed: list[InstanceObservation]) -> list[Change]:
    """Retire nodes that were closed, and are idle still."""
    desired, decrement = ward.desired - len(closed), wish.reason.rule != SURPLUS_RULE
    leaving: list[Change] = [
        Retire(ward.spec.name, each.instance_id, decrement, reason=_leaving(ward, wish, each)) for each in closed
    ]
    if not decrement:
        return leaving
    return [*leaving, SetDesired(ward.spec.name, ward.desired, desired, _priced(ward, wish.reason, -len(closed)))]


def _leaving(ward: Ward, wish: Wish, instance: InstanceObservation) -> Reason:
    sentence = f"{instance.instance_id} was closed and is still idle; {wish.reason.sentence}"
    return _priced(ward, replace(wish.reason, sentence=sentence), -1)


def _one_number(ward: Ward, steps: list[Change]) -> list[Change]:
    """Repair steps with a single final number: each group's desired capacity moves once a round, in one direction."""
    kept: list[Change] = [each for each in steps if not isinstance(each, SetDesired)]
    leaving = [each for each in kept if isinstance(each, Retire) and each.decrement]
    if not leaving:
        surges = [each for each in steps if isinstance(each, SetDesired)][:1]
        return [*kept, *(replace(each, reason=_priced(ward, each.reason, 1)) for each in surges)]
    fewer = leaving[: max(ward.desired - ward.spec.min_size, 0)]
    kept = [replace(each, decrement=each in fewer) if isinstance(each, Retire) else each for each in kept]
    return [*kept, *(_shrunk_by_repair(ward, fewer) if fewer else [])]


def _shrunk_by_repair(ward: Ward, fewer: list[Retire]) -> list[Change]:
    reason = _priced(ward, fewer[0].reason, -len(fewer))
    return [SetDesired(ward.spec.name, ward.desired, ward.desired - len(fewer), reason)]


def _priced(ward: Ward, reason: Reason, nodes: int) -> Reason:
    """The reason with what the change costs or saves for each hour, where the price is known."""
    price = price_of(ward.spec.instance_type, abs(nodes))
    if price is None:
        return reason
    words = f"{'costs' if nodes > 0 else 'saves'} {price:.2f} USD/h"
    signed = price if nodes > 0 else -price
    return Reason(reason.rule, f"{reason.sentence}; {words}", {**reason.evidence, "usd_per_hour": round(signed, 4)})
