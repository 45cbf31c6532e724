"""The driver answers. One that does not is unknown, never broken and never healthy (k8s-device-plugin#1640)."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.model.health import CheckResult, HealthState, Witness
from trimtab_agent.node.seen import Seen


def check(seen: Seen) -> Iterator[CheckResult]:
    """Unknown when the driver could not be asked, else healthy."""
    if seen.problem:
        yield CheckResult("driver", HealthState.UNKNOWN, Witness.NVML, seen.problem, "driver-unresponsive")
    else:
        reason = f"driver {seen.snapshot.driver or 'of unknown version'} answers"
        yield CheckResult("driver", HealthState.HEALTHY, Witness.NVML, reason)
