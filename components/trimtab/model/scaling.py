"""What a scaling group declares: bounds, owner, signals, repair. Pure values and their wire form.

The wire form (camelCase mappings) is what Pulumi stores in the stack's state; the reconciler reads it back from there,
so a program in any Pulumi language declares the same policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class CapacityOwner(StrEnum):
    """Who may change a group's desired capacity."""

    RECONCILER = "reconciler"
    CODE = "code"
    EXTERNAL = "external"


@dataclass(frozen=True, slots=True)
class Pin:
    """A desired capacity that beats metrics until it expires."""

    value: int
    until: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Bound:
    """One side of a threshold: past `value` for `hold`, the group changes by `nodes` (or by `percent` of observed).

    `per_node` replaces a step by proportion: the group is sized so that each node carries at most `per_node` of the
    signal. Exactly one of `nodes`, `percent` and `per_node` is set.
    """

    value: float
    hold: timedelta = timedelta(0)
    nodes: int | None = None
    percent: float | None = None
    per_node: float | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """A number that says whether the group is too small (above `up`) or too large (below `down`).

    `source` is a built-in signal's name (see docs/signals.md) or `promql`; `query` is the PromQL text then.
    """

    name: str
    source: str
    query: str | None = None
    up: Bound | None = None
    down: Bound | None = None


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """How desired capacity follows signals. The windows have the Kubernetes HPA's meaning."""

    signals: tuple[Signal, ...] = ()
    stabilization_up: timedelta = timedelta(0)
    stabilization_down: timedelta = timedelta(seconds=300)
    cooldown_up: timedelta = timedelta(seconds=60)
    cooldown_down: timedelta = timedelta(seconds=300)
    stale_after: timedelta = timedelta(seconds=120)


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """When a failed node is replaced and how many at once.

    `confirmations` is how many consecutive observations must condemn a node; `budget` is the number of nodes that may
    be out at once, None for max(1, 10 % of the group); `drain_deadline` bounds the wait for the node's jobs.
    """

    enabled: bool = True
    confirmations: int = 2
    budget: int | None = None
    drain_deadline: timedelta = timedelta(seconds=600)
    replacement_deadline: timedelta = timedelta(seconds=900)


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """One scaling group as declared, read from the stack's state."""

    name: str
    urn: str
    group_id: str
    min_size: int
    max_size: int
    desired: int
    capacity: CapacityOwner = CapacityOwner.RECONCILER
    pin: Pin | None = None
    instance_type: str | None = None
    scaling: ScalingPolicy = ScalingPolicy()
    repair: RepairPolicy = RepairPolicy()
