"""From results to one word about the node, and what stays true until the next boot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from trimtab.model.health import CheckResult, HealthState, Witness
from trimtab_agent.node.seen import Incident
from trimtab_agent.node.snapshot import Gpu, Xid

ORDER = (HealthState.UNHEALTHY, HealthState.UNKNOWN, HealthState.DEGRADED, HealthState.HEALTHY)


def verdict(results: Iterable[CheckResult]) -> HealthState:
    """The worst state of all results; without any there is no evidence, thus unknown."""
    states = {result.health for result in results}
    return next((state for state in ORDER if state in states), HealthState.UNKNOWN)


def merged(
    incidents: tuple[Incident, ...], counted: Iterable[tuple[Xid, int]], witness: Witness, now: datetime
) -> tuple[Incident, ...]:
    """The incidents with new Xids counted in: one for each code, GPU and witness."""
    known = {_key(each.xid, each.witness): each for each in incidents}
    for xid, times in counted:
        key = _key(xid, witness)
        before = known.get(key)
        known[key] = (
            Incident(xid, witness, now, now, times)
            if before is None
            else replace(before, last_at=now, count=before.count + times)
        )
    return tuple(known.values())


def _key(xid: Xid, witness: Witness) -> tuple[int, str | None, Witness]:
    return xid.code, xid.pci or xid.uuid, witness


def is_busy(gpus: tuple[Gpu, ...]) -> bool | None:
    """Whether any process computes on any GPU that is not lost; None when none says so and some cannot tell."""
    counts = [gpu.processes for gpu in gpus if not gpu.lost]
    if any(counts):
        return True
    return False if counts and None not in counts else None


def utilization(gpus: tuple[Gpu, ...]) -> float | None:
    """The mean utilisation of the GPUs that report one, 0 to 1."""
    ratios = [gpu.utilization_ratio for gpu in gpus if gpu.utilization_ratio is not None]
    return sum(ratios) / len(ratios) if ratios else None
