"""Health words shared by the node agent, which says them, and the reconciler, which acts on them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class HealthState(StrEnum):
    """What a check found. Unknown is neither healthy nor broken; it blocks, it never repairs."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not-applicable"


class Action(StrEnum):
    """What a check suggests, in rising order of cost."""

    NONE = "none"
    RESTART_APP = "restart-app"
    RESET_GPU = "reset-gpu"
    REBOOT = "reboot"
    REPLACE = "replace"
    INSPECT = "inspect"


class Witness(StrEnum):
    """An independent source of evidence. Destructive repair needs two different ones (I15).

    `agent-silence` is listed because a silent agent is evidence only together with AWS's own status checks.
    """

    NVML = "nvml"
    KERNEL_LOG = "kernel-log"
    EC2_STATUS = "ec2-status"
    AGENT_SILENCE = "agent-silence"
    PROMETHEUS = "prometheus"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check's finding on one node or GPU."""

    check: str
    health: HealthState
    witness: Witness
    reason: str
    code: str = ""
    action: Action = Action.NONE
    gpu_uuid: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class CordonMark:
    """Somebody asked that no new work starts on a node; only its owner lifts it, and only with a newer epoch."""

    owner: str
    epoch: int
    reason: str
    drain: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What a node agent says of its node. `busy` is None when the agent cannot tell.

    `snapshot_age_seconds` grows while the driver hangs: an old snapshot is not evidence.
    """

    node: str
    instance_id: str
    boot_id: str
    sequence: int
    at: datetime
    snapshot_age_seconds: float
    health: HealthState
    checks: tuple[CheckResult, ...]
    gpus: int
    busy: bool | None
    utilization_ratio: float | None
    cordon: CordonMark | None = None
