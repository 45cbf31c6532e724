"""Who decides a group's desired capacity, as one pure function.

This is where code and autoscaler stop fighting: a number that the reconciler set stays, whatever else a person's
update changes, and always within the declared bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trimtab.model.scaling import CapacityOwner, Pin
from trimtab.provider.plan_file import Order


@dataclass(frozen=True, slots=True)
class Decision:
    """The desired capacity for this run, and a remark where it is not what somebody asked for."""

    desired: int
    remark: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """Everything that may speak for a number: the declaration, the last state, a pin and this run's plan.

    `declared` is the program's number; only a code-owned group follows it after its creation.
    """

    owner: CapacityOwner
    low: int
    high: int
    declared: int | None = None
    last: int | None = None
    pin: Pin | None = None
    order: Order | None = None


def decide(claim: Claim, now: datetime) -> Decision:
    """The desired capacity: plan, else unexpired pin, else the owner's number; always within [low, high]."""
    wanted = _wanted(claim, now)
    desired = min(max(wanted, claim.low), claim.high)
    if desired == wanted:
        return Decision(desired)
    return Decision(desired, f"desired {wanted} lies outside [{claim.low}, {claim.high}] and becomes {desired}")


def _wanted(claim: Claim, now: datetime) -> int:
    if claim.order is not None:
        return claim.order.desired
    if claim.pin is not None and now < claim.pin.until:
        return claim.pin.value
    first, second = claim.last, claim.declared
    if claim.owner is CapacityOwner.CODE:
        first, second = second, first
    return next((number for number in (first, second) if number is not None), claim.low)
