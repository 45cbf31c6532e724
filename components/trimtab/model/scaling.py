"""What a scaling group declares: bounds, owner, signals, repair. Pure values and their wire form.

The wire form (camelCase mappings) is what Pulumi stores in the stack's state; the reconciler reads it back from there,
so a program in any Pulumi language declares the same policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from trimtab.model.errors import DeclarationError
from trimtab.model.wire import Fields

Wire = dict[str, Any]


SOURCES = ("pending_gpus", "busy_nodes", "busy_ratio", "gpu_utilization", "promql")


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

    @classmethod
    def from_wire(cls, value: object, path: str = "pin") -> Pin:
        """Parse the wire form; raises DeclarationError naming the property."""
        fields = Fields(value, path)
        pin = cls(fields.whole("value"), fields.instant("until"), fields.text("reason"))
        fields.done()
        return pin

    def to_wire(self) -> Wire:
        """The form that Pulumi stores."""
        return {"value": self.value, "until": self.until.isoformat(), "reason": self.reason}


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

    @classmethod
    def from_wire(cls, value: object, path: str) -> Bound:
        """Parse the wire form; raises DeclarationError naming the property."""
        fields = Fields(value, path)
        bound = cls(
            value=fields.number("value"),
            hold=fields.seconds("holdSeconds", timedelta(0)),
            nodes=fields.optional_whole("nodes", least=1),
            percent=fields.optional_number("percent", least=0),
            per_node=fields.optional_number("perNode", least=0),
        )
        fields.done()
        steps = [step for step in (bound.nodes, bound.percent, bound.per_node) if step is not None]
        if len(steps) != 1 or steps[0] <= 0:
            raise DeclarationError(path, "set exactly one of nodes, percent and perNode, above 0")
        return bound

    def to_wire(self) -> Wire:
        """The form that Pulumi stores."""
        steps = {"nodes": self.nodes, "percent": self.percent, "perNode": self.per_node}
        return {
            "value": self.value,
            "holdSeconds": self.hold.total_seconds(),
            **{key: step for key, step in steps.items() if step is not None},
        }


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

    @classmethod
    def from_wire(cls, value: object, path: str) -> Signal:
        """Parse the wire form; raises DeclarationError naming the property."""
        fields = Fields(value, path)
        up, down = fields.raw("up"), fields.raw("down")
        signal = cls(
            name=fields.text("name"),
            source=fields.text("source"),
            query=fields.optional_text("query"),
            up=None if up is None else Bound.from_wire(up, f"{path}.up"),
            down=None if down is None else Bound.from_wire(down, f"{path}.down"),
        )
        fields.done()
        signal.require_sense(path)
        return signal

    def require_sense(self, path: str) -> None:
        """Refuse a signal that could never be read or would ask for both directions at once.

        Raises:
            DeclarationError: naming the property.
        """
        if self.source not in SOURCES:
            raise DeclarationError(f"{path}.source", f"expected one of {', '.join(SOURCES)}, got {self.source!r}")
        if (self.source == "promql") != (self.query is not None):
            raise DeclarationError(f"{path}.query", "give a query if, and only if, the source is promql")
        if self.up and self.down and self.down.value > self.up.value:
            raise DeclarationError(f"{path}.down.value", "must not lie above up.value, or the group would swing")

    def to_wire(self) -> Wire:
        """The form that Pulumi stores."""
        wire: Wire = {"name": self.name, "source": self.source}
        if self.query is not None:
            wire["query"] = self.query
        for key, bound in (("up", self.up), ("down", self.down)):
            if bound is not None:
                wire[key] = bound.to_wire()
        return wire


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """How desired capacity follows signals. The windows have the Kubernetes HPA's meaning."""

    signals: tuple[Signal, ...] = ()
    stabilization_up: timedelta = timedelta(0)
    stabilization_down: timedelta = timedelta(seconds=300)
    cooldown_up: timedelta = timedelta(seconds=60)
    cooldown_down: timedelta = timedelta(seconds=300)
    stale_after: timedelta = timedelta(seconds=120)

    @classmethod
    def from_wire(cls, value: object, path: str = "scaling") -> ScalingPolicy:
        """Parse the wire form; raises DeclarationError naming the property."""
        fields, default = Fields({} if value is None else value, path), cls()
        policy = cls(
            signals=tuple(Signal.from_wire(item, at) for item, at in fields.each("signals")),
            stabilization_up=fields.seconds("stabilizationUpSeconds", default.stabilization_up),
            stabilization_down=fields.seconds("stabilizationDownSeconds", default.stabilization_down),
            cooldown_up=fields.seconds("cooldownUpSeconds", default.cooldown_up),
            cooldown_down=fields.seconds("cooldownDownSeconds", default.cooldown_down),
            stale_after=fields.seconds("staleAfterSeconds", default.stale_after),
        )
        fields.done()
        names = [signal.name for signal in policy.signals]
        if len(set(names)) != len(names):
            raise DeclarationError(f"{path}.signals", "each signal needs a name of its own")
        return policy

    def to_wire(self) -> Wire:
        """The form that Pulumi stores."""
        return {
            "signals": [signal.to_wire() for signal in self.signals],
            "stabilizationUpSeconds": self.stabilization_up.total_seconds(),
            "stabilizationDownSeconds": self.stabilization_down.total_seconds(),
            "cooldownUpSeconds": self.cooldown_up.total_seconds(),
            "cooldownDownSeconds": self.cooldown_down.total_seconds(),
            "staleAfterSeconds": self.stale_after.total_seconds(),
        }


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

    @classmethod
    def from_wire(cls, value: object, path: str = "repair") -> RepairPolicy:
        """Parse the wire form; raises DeclarationError naming the property."""
        fields, default = Fields({} if value is None else value, path), cls()
        policy = cls(
            enabled=fields.flag("enabled", default=default.enabled),
            confirmations=fields.whole("confirmations", default.confirmations, least=2),
            budget=fields.optional_whole("budget"),
            drain_deadline=fields.seconds("drainDeadlineSeconds", default.drain_deadline),
            replacement_deadline=fields.seconds("replacementDeadlineSeconds", default.replacement_deadline),
        )
        fields.done()
        return policy

    def to_wire(self) -> Wire:
        """The form that Pulumi stores."""
        wire: Wire = {
            "enabled": self.enabled,
            "confirmations": self.confirmations,
            "drainDeadlineSeconds": self.drain_deadline.total_seconds(),
            "replacementDeadlineSeconds": self.replacement_deadline.total_seconds(),
        }
        return wire if self.budget is None else {**wire, "budget": self.budget}


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

    @classmethod
    def from_wire(cls, name: str, urn: str, group_id: str, properties: Mapping[str, Any]) -> GroupSpec:
        """Read a scaling group from the properties that the stack's state holds.

        Raises:
            DeclarationError: naming the group and the property.
        """
        fields = Fields(properties, name)
        pin, owner = fields.raw("pin"), fields.text("capacity", CapacityOwner.RECONCILER)
        if owner not in tuple(CapacityOwner):
            raise fields.refuse("capacity", f"one of {', '.join(CapacityOwner)}")
        low, high = fields.whole("minSize"), fields.whole("maxSize")
        if low > high:
            raise DeclarationError(f"{name}.minSize", f"must not exceed maxSize ({low} > {high})")
        return cls(
            name=name,
            urn=urn,
            group_id=group_id,
            min_size=low,
            max_size=high,
            desired=fields.whole("desired", low),
            capacity=CapacityOwner(owner),
            pin=None if pin is None else Pin.from_wire(pin, f"{name}.pin"),
            instance_type=fields.optional_text("instanceType"),
            scaling=ScalingPolicy.from_wire(fields.raw("scaling"), f"{name}.scaling"),
            repair=RepairPolicy.from_wire(fields.raw("repair"), f"{name}.repair"),
        )
