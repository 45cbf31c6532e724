"""What was seen, by whom, when. Missing data is a value of its own, never zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from trimtab.model.health import NodeReport


@dataclass(frozen=True, slots=True)
class Sample:
    """A signal's value at a time; `value` is None when it could not be had, and `problem` says why."""

    value: float | None
    at: datetime | None
    problem: str | None = None


class Ec2Status(StrEnum):
    """AWS's own status checks of an instance."""

    OK = "ok"
    IMPAIRED = "impaired"
    INITIALIZING = "initializing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class InstanceObservation:
    """One instance of a group. `report` is None when its agent did not answer; `problem` says why.

    `lifecycle` is the auto-scaling lifecycle state in AWS's words, for example ``InService``.
    """

    instance_id: str
    lifecycle: str
    launched_at: datetime | None = None
    ec2_status: Ec2Status = Ec2Status.UNKNOWN
    report: NodeReport | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class GroupObservation:
    """One scaling group as AWS, its agents and its metrics show it."""

    name: str
    desired: int | None
    min_size: int | None = None
    max_size: int | None = None
    instances: tuple[InstanceObservation, ...] = ()
    signals: Mapping[str, Sample] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything one round saw, at one time."""

    at: datetime
    groups: Mapping[str, GroupObservation]
