"""What simulated agents say, in the agents' own words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from trimtab.model.health import Action, CheckResult, CordonMark, HealthState, NodeReport, Witness

TEXTS = {
    Witness.NVML: CheckResult("lost-gpu", HealthState.UNHEALTHY, Witness.NVML, "GPU 3 is lost", "lost", Action.REPLACE),
    Witness.KERNEL_LOG: CheckResult(
        "xid", HealthState.UNHEALTHY, Witness.KERNEL_LOG, "Xid 79 on GPU 3", "79", Action.REBOOT
    ),
}


def report(
    instance_id: str,
    at: datetime,
    *,
    sequence: int = 1,
    busy: bool | None = False,
    sick: Iterable[Witness] = (),
    mark: CordonMark | None = None,
    health: HealthState | None = None,
    utilization: float | None = None,
) -> NodeReport:
    """One agent's report; `sick` names the witnesses that condemn the node."""
    checks = tuple(TEXTS[witness] for witness in sorted(sick))
    state = health or (HealthState.UNHEALTHY if checks else HealthState.HEALTHY)
    ratio = utilization if utilization is not None else (1.0 if busy else 0.0)
    return NodeReport(
        node=f"node-{instance_id}",
        instance_id=instance_id,
        boot_id="boot-1",
        sequence=sequence,
        at=at,
        snapshot_age_seconds=0.0,
        health=state,
        checks=checks,
        gpus=8,
        busy=busy,
        utilization_ratio=ratio,
        cordon=mark,
    )
