"""How many nodes the signals want: largest wanted wins, shrink only when all agree, and never on missing data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from trimtab.model.scaling import Bound, GroupSpec, Pin, Signal
from trimtab_agent.reconciler import evidence
from trimtab_agent.reconciler.history import GroupHistory, Orders
from trimtab_agent.reconciler.observation import GroupObservation, InstanceObservation, Sample
from trimtab_agent.reconciler.plan import Reason

MEANS = frozenset({"gpu_utilization", "busy_ratio"})


@dataclass(frozen=True, slots=True)
class Load:
    """What signals are weighed against: `base` nodes now, of which `taken` can start no further work."""

    base: int
    taken: int


@dataclass(frozen=True, slots=True)
class Vote:
    """One signal's say. `wanted` None abstains; `blocks_shrink` marks a signal that cannot be read."""

    signal: str
    wanted: int | None
    sentence: str
    value: float | None = None
    threshold: float | None = None
    blocks_shrink: bool = False


@dataclass(frozen=True, slots=True)
class Wish:
    """The group's wanted size and why.

    `held` says what kept it from changing, or from changing more; `blind` is True when a signal cannot be read.
    """

    wanted: int
    reason: Reason
    held: str | None = None
    blind: bool = False


def load_of(spec: GroupSpec, group: GroupObservation, memory: GroupHistory, now: datetime) -> Load:
    """A group's load. What repair added on top is no capacity, and neither are the nodes that it stands in for."""
    base = (group.desired or 0) - memory.surge
    replaced = {name for name, repair in memory.repairs.items() if repair.surged_at is not None}
    serving = [each for each in evidence.in_service(group) if each.instance_id not in replaced]
    return Load(base, sum(is_taken(each, memory, spec.scaling.stale_after, now) for each in serving))


def is_taken(instance: InstanceObservation, memory: GroupHistory, stale_after: timedelta, now: datetime) -> bool:
    """True for a node that has work, or can take none. One that does not report may still start, and take some."""
    if instance.instance_id in memory.repairs or instance.instance_id in memory.suspects:
        return True
    if instance.report is None:
        return False
    open_to_work = instance.report.cordon is None or evidence.is_closed(instance)
    idle = evidence.is_busy(instance, now, stale_after) is False
    return not (open_to_work and idle and evidence.is_well(instance, now, stale_after))


def vote(
    signal: Signal, sample: Sample | None, memory: GroupHistory, load: Load, spec: GroupSpec, now: datetime
) -> Vote:
    """One signal's wanted size."""
    value = evidence.known(sample, spec.scaling.stale_after, now)
    if value is None:
        problem = evidence.unreadable(sample, spec.scaling.stale_after, now)
        return Vote(signal.name, None, f"{signal.name} is unknown ({problem})", blocks_shrink=True)
    for key, bound in (("up", signal.up), ("down", signal.down)):
        since = memory.past.get(f"{signal.name}:{key}")
        if bound is not None and since is not None:
            return past(signal, key, bound, value, load, now - since)
    wanted = load.base if signal.down is not None else None
    return Vote(signal.name, wanted, f"{signal.name} is {value:g}, inside its bounds", value)


def past(signal: Signal, direction: str, bound: Bound, value: float, load: Load, passed: timedelta) -> Vote:
    """The vote of a signal that lies past a bound: what the bound asks for once it has held for long enough."""
    held = passed >= bound.hold
    wanted = sized(signal, direction, bound, value, load) if held else load.base
    side, hold = "above" if direction == "up" else "below", bound.hold.total_seconds()
    waited = f" for {hold:g} s" if held else f" for {passed.total_seconds():.0f} of {hold:g} s"
    sentence = f"{signal.name} is {value:g}, {side} {bound.value:g}{waited if bound.hold else ''}"
    return Vote(signal.name, wanted, sentence, value, bound.value)


def sized(signal: Signal, direction: str, bound: Bound, value: float, load: Load) -> int:
    """The size that a bound asks for, by proportion or by a step of at least one node."""
    if bound.per_node is not None:
        wanted = proportional(signal, value, bound.per_node, load)
        return max(load.base, wanted) if direction == "up" else min(load.base, wanted)
    step = bound.nodes if bound.nodes is not None else math.ceil(load.base * (bound.percent or 0) / 100)
    return load.base + max(step, 1) if direction == "up" else load.base - max(step, 1)


def proportional(signal: Signal, value: float, per_node: float, load: Load) -> int:
    """As many nodes as carry the signal at `per_node` each.

    Pending work comes on top of the nodes that are taken; a mean over the nodes is multiplied by their number; any
    other signal is the whole group's.
    """
    if signal.source == "pending_gpus":
        return load.taken + math.ceil(value / per_node)
    return math.ceil(value * load.base / per_node if signal.source in MEANS else value / per_node)


def wish(spec: GroupSpec, votes: tuple[Vote, ...], load: Load) -> Wish:
    """All votes together: the largest wanted wins, and one unreadable signal is enough to forbid shrinking."""
    cast = [each for each in votes if each.wanted is not None]
    blind = next((each for each in votes if each.blocks_shrink), None)
    if not cast:
        sentence = "; ".join(each.sentence for each in votes) or "no signal is declared"
        held = f"{sentence}, so nothing changes" if blind else None
        return Wish(load.base, Reason("threshold", sentence), held, blind is not None)
    winner = max(cast, key=lambda each: each.wanted or 0)
    evidence_of = {"signal": winner.signal, "value": winner.value, "threshold": winner.threshold}
    reason = Reason("threshold", winner.sentence, evidence_of)
    return limited(spec, Wish(winner.wanted or 0, reason), blind, load)


def limited(spec: GroupSpec, raw: Wish, blind: Vote | None, load: Load) -> Wish:
    """A wish inside the group's bounds, and not below its size while a signal is blind."""
    if blind is not None and raw.wanted < load.base:
        return Wish(load.base, raw.reason, f"{blind.sentence}, so nothing shrinks", blind=True)
    held = f"{raw.reason.sentence}: {raw.wanted} wanted, but max is {spec.max_size}"
    capped = raw.wanted > spec.max_size
    return Wish(clamped(spec, raw.wanted), raw.reason, held if capped else None, blind is not None)


def clamped(spec: GroupSpec, size: int) -> int:
    """A size inside the group's bounds (I1)."""
    return min(max(size, spec.min_size), spec.max_size)


def pinned(spec: GroupSpec, orders: Orders, now: datetime) -> Pin | None:
    """The pin that holds now; the command line's beats the program's."""
    pins = (orders.pins.get(spec.name), spec.pin)
    return next((pin for pin in pins if pin is not None and now < pin.until), None)


def steadied(spec: GroupSpec, memory: GroupHistory, raw: Wish, base: int, now: datetime) -> Wish:
    """The wish after stabilisation windows and cooldowns."""
    calm = stabilised(spec, memory, raw, base, now)
    left = None if calm.wanted == base else cooling(spec, memory, now, grows=calm.wanted > base)
    return calm if left is None else replace(calm, wanted=base, held=f"{calm.reason.sentence}, but {left}")


def cooling(spec: GroupSpec, memory: GroupHistory, now: datetime, *, grows: bool) -> str | None:
    """How long the group still cools down, in words: growth after growth, shrinking after either."""
    policy = spec.scaling
    last = [memory.last_up] if grows else [memory.last_up, memory.last_down]
    newest = max((at for at in last if at is not None), default=None)
    left = timedelta(0) if newest is None else (policy.cooldown_up if grows else policy.cooldown_down) - (now - newest)
    return f"the group cools down for another {left.total_seconds():.0f} s" if left > timedelta(0) else None


def stabilised(spec: GroupSpec, memory: GroupHistory, raw: Wish, base: int, now: datetime) -> Wish:
    """The Kubernetes HPA's rule: grow to the smallest, shrink to the largest recommendation of the window."""
    policy = spec.scaling
    window = policy.stabilization_up if raw.wanted > base else policy.stabilization_down
    recent = [wanted for at, wanted in memory.wants if now - at < window]
    wanted = max(base, min([raw.wanted, *recent])) if raw.wanted > base else min(base, max([raw.wanted, *recent]))
    if wanted == raw.wanted:
        return raw
    held = f"{raw.wanted} wanted, held at {wanted} by the {window.total_seconds():g} s stabilisation window"
    return replace(raw, wanted=wanted, held=f"{raw.reason.sentence}: {held}")
