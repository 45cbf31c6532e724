"""The plan: an immutable list of changes, each with its reason. The executor has no choices left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

REPLACE_RULE = "replace-failed-node"
PIN_RULE = "pin"
BOUNDS_RULE = "bounds"
SURPLUS_RULE = "surplus"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a change is made, as one sentence and as the numbers behind it."""

    rule: str
    sentence: str
    evidence: Mapping[str, str | float | int | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SetDesired:
    """Change a group's desired capacity by a stack update."""

    group: str
    observed: int
    desired: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Retire:
    """Terminate one named instance by a stack update; `decrement` lowers desired capacity with it."""

    group: str
    instance_id: str
    decrement: bool
    reason: Reason


@dataclass(frozen=True, slots=True)
class Cordon:
    """Ask a node's agent that no new work starts; with `drain`, that running work is asked to leave."""

    group: str
    instance_id: str
    drain: bool
    reason: Reason


@dataclass(frozen=True, slots=True)
class Uncordon:
    """Lift our own cordon from a node."""

    group: str
    instance_id: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Hold:
    """A decision to leave a group as it is although something asked for a change; nothing is executed."""

    group: str
    reason: Reason


Change = SetDesired | Retire | Cordon | Uncordon | Hold


@dataclass(frozen=True, slots=True)
class Plan:
    """One round's decisions, in order of execution."""

    at: datetime
    changes: tuple[Change, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to execute; holds may still explain why."""
        return all(isinstance(change, Hold) for change in self.changes)
