"""How many nodes the signals want: largest wanted wins, shrink only when all agree, and never on missing data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trimtab.model.scaling import Bound, GroupSpec, Pin, Signal
from trimtab_agent.reconciler.history import GroupHistory, Orders
from trimtab_agent.reconciler.observation import Sample
from trimtab_agent.reconciler.plan import Reason


@dataclass(frozen=True, slots=True)
class Load:
    """What the signals are weighed against: `base` nodes now, `busy` of them, `out` in repair without replacement."""

    base: int
    busy: int
    out: int = 0


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
    """The group's wanted size before its own limits, and why; `held` says what kept it from changing."""

    wanted: int
    reason: Reason
    held: str | None = None
    votes: tuple[Vote, ...] = field(default=())


def vote(
    signal: Signal, sample: Sample | None, memory: GroupHistory, load: Load, spec: GroupSpec, now: datetime
) -> Vote:
    """One signal's wanted size."""
    problem = unreadable(sample, spec.scaling.stale_after, now)
    if problem or sample is None or sample.value is None:
        return Vote(signal.name, None, f"{signal.name} is unknown ({problem})", blocks_shrink=True)
    for key, bound in (("up", signal.up), ("down", signal.down)):
        since = memory.past.get(f"{signal.name}:{key}")
        if bound is not None and since is not None and now - since >= bound.hold:
            return past(signal, key, bound, sample.value, load)
    wanted = load.base if signal.down is not None else None
    return Vote(signal.name, wanted, f"{signal.name} is {sample.value:g}, inside its bounds", sample.value)


def past(signal: Signal, direction: str, bound: Bound, value: float, load: Load) -> Vote:
    """The vote of a signal that lies past a bound for long enough."""
    wanted = sized(signal, direction, bound, value, load)
    side = "above" if direction == "up" else "below"
    held = f" for {bound.hold.total_seconds():g} s" if bound.hold else ""
    return Vote(signal.name, wanted, f"{signal.name} is {value:g}, {side} {bound.value:g}{held}", value, bound.value)


def sized(signal: Signal, direction: str, bound: Bound, value: float, load: Load) -> int:
    """The size that a bound asks for. Pending work comes on top of what is busy; other signals span the group."""
    if bound.per_node is not None:
        carried = load.busy + load.out if signal.source == "pending_gpus" else 0
        wanted = carried + math.ceil(value / bound.per_node)
        return max(load.base, wanted) if direction == "up" else min(load.base, wanted)
    step = bound.nodes if bound.nodes is not None else math.ceil(load.base * (bound.percent or 0) / 100)
    return load.base + max(step, 1) if direction == "up" else load.base - max(step, 1)


def unreadable(sample: Sample | None, stale_after: timedelta, now: datetime) -> str | None:
    """Why a sample proves nothing, or None when it is good."""
    if sample is None:
        return "never measured"
    if sample.value is None or math.isnan(sample.value):
        return sample.problem or "no value"
    if sample.at is None or now - sample.at > stale_after:
        return "stale"
    return None


def wish(spec: GroupSpec, votes: tuple[Vote, ...], load: Load) -> Wish:
    """All votes together: the largest wanted wins, and one unreadable signal is enough to forbid shrinking."""
    cast = [each for each in votes if each.wanted is not None]
    if not cast:
        sentence = "; ".join(each.sentence for each in votes) or "no signal is declared"
        return Wish(load.base, Reason("threshold", sentence), votes=votes)
    winner = max(cast, key=lambda each: each.wanted or 0)
    wanted = min(max(winner.wanted or 0, spec.min_size), spec.max_size)
    reason = Reason(
        "threshold", winner.sentence, {"signal": winner.signal, "value": winner.value, "threshold": winner.threshold}
    )
    blind = next((each for each in votes if each.blocks_shrink), None)
    if blind is not None and wanted < load.base:
        return Wish(load.base, reason, held=f"{blind.sentence}, so nothing shrinks", votes=votes)
    return Wish(wanted, reason, votes=votes)


def pinned(spec: GroupSpec, orders: Orders, now: datetime) -> Pin | None:
    """The pin that holds now; the command line's beats the program's."""
    pins = (orders.pins.get(spec.name), spec.pin)
    return next((pin for pin in pins if pin is not None and now < pin.until), None)


def steadied(spec: GroupSpec, memory: GroupHistory, raw: Wish, base: int, now: datetime) -> Wish:
    """The wish after stabilisation windows and cooldowns."""
    calm = stabilised(spec, memory, raw, base, now)
    if calm.wanted == base:
        return calm
    policy, grows = spec.scaling, calm.wanted > base
    last = [memory.last_up] if grows else [memory.last_up, memory.last_down]
    cooldown = policy.cooldown_up if grows else policy.cooldown_down
    newest = max((at for at in last if at is not None), default=None)
    if newest is not None and now - newest < cooldown:
        left = (cooldown - (now - newest)).total_seconds()
        return Wish(base, calm.reason, held=f"cooling down for another {left:.0f} s", votes=calm.votes)
    return calm


def stabilised(spec: GroupSpec, memory: GroupHistory, raw: Wish, base: int, now: datetime) -> Wish:
    """The Kubernetes HPA's rule: grow to the smallest, shrink to the largest recommendation of the window."""
    policy = spec.scaling
    window = policy.stabilization_up if raw.wanted > base else policy.stabilization_down
    recent = [wanted for at, wanted in memory.wants if now - at < window]
    wanted = max(base, min([raw.wanted, *recent])) if raw.wanted > base else min(base, max([raw.wanted, *recent]))
    if wanted == raw.wanted:
        return raw
    held = f"{raw.wanted} wanted, held at {wanted} by the {window.total_seconds():g} s stabilisation window"
    return Wish(wanted, raw.reason, held=held, votes=raw.votes)
