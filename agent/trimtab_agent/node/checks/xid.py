"""Xids since boot, judged by the catalogue in data/xids.csv. Faults of applications never condemn a node."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from trimtab.model.health import Action, CheckResult, HealthState, Witness
from trimtab_agent.node.seen import Incident, Seen

CONDEMNING = frozenset({Action.RESET_GPU, Action.REBOOT, Action.REPLACE})
UNKNOWN_NAME = "not in the catalogue"


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the catalogue."""

    code: int
    name: str
    kind: str
    action: Action


@cache
def catalogue() -> dict[int, Entry]:
    """All Xids by code."""
    text = files("trimtab_agent.node").joinpath("data/xids.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {int(row["xid"]): Entry(int(row["xid"]), row["name"], row["kind"], Action(row["action"])) for row in rows}


def check(seen: Seen) -> Iterator[CheckResult]:
    """One result for each incident that says something of the node; healthy when none does."""
    results = [result for incident in seen.incidents if (result := judged(incident)) is not None]
    yield from results
    if not results:
        yield CheckResult(
            "xid", HealthState.HEALTHY, Witness.KERNEL_LOG, "no Xid since boot says anything of this node"
        )


def judged(incident: Incident) -> CheckResult | None:
    """An incident as a result: hardware faults condemn, what needs decoding or repeats degrades, the rest is noise.

    A code outside the catalogue (k8s-device-plugin#259 saw 999) is unknown to us and condemns nothing.
    """
    entry = catalogue().get(incident.xid.code)
    if entry is None or entry.kind in {"user-app", "legacy-unused"} or entry.action is Action.RESTART_APP:
        return None
    health = HealthState.UNHEALTHY if entry.action in CONDEMNING else HealthState.DEGRADED
    if entry.action is Action.NONE and entry.kind != "hardware":
        return None
    where = incident.xid.pci or incident.xid.uuid or "an unnamed GPU"
    times = f", {incident.count} times" if incident.count > 1 else ""
    return CheckResult(
        "xid",
        health,
        incident.witness,
        f"Xid {entry.code} ({entry.name}) on {where}{times}",
        f"xid-{entry.code}",
        entry.action,
        incident.xid.uuid,
        incident.first_at,
    )
