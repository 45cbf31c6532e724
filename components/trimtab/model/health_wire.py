"""Node reports as JSON: what the agent publishes and the reconciler reads, in one place so that they cannot differ."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from trimtab.model.errors import DeclarationError
from trimtab.model.health import Action, CheckResult, CordonMark, HealthState, NodeReport, Witness
from trimtab.model.wire import Fields

SCHEMA = 1


def report_to_json(report: NodeReport) -> dict[str, Any]:
    """A report in the form of ``GET /v1/report``; the per-GPU rows are the agent's to add."""
    return {
        "schema": SCHEMA,
        "node": report.node,
        "instance_id": report.instance_id,
        "boot_id": report.boot_id,
        "sequence": report.sequence,
        "at": report.at.isoformat(),
        "snapshot_age_seconds": report.snapshot_age_seconds,
        "health": report.health.value,
        "checks": [_check_to_json(each) for each in report.checks],
        "gpus": [{} for _ in range(report.gpus)],
        "busy": report.busy,
        "utilization_ratio": report.utilization_ratio,
        "cordon": None if report.cordon is None else mark_to_json(report.cordon),
    }


def _check_to_json(check: CheckResult) -> dict[str, Any]:
    return {
        "check": check.check,
        "health": check.health.value,
        "witness": check.witness.value,
        "reason": check.reason,
        "code": check.code,
        "action": check.action.value,
        "gpu_uuid": check.gpu_uuid,
        "since": None if check.since is None else check.since.isoformat(),
    }


def mark_to_json(mark: CordonMark) -> dict[str, Any]:
    """A cordon mark as JSON."""
    return {
        "owner": mark.owner,
        "epoch": mark.epoch,
        "reason": mark.reason,
        "drain": mark.drain,
        "at": mark.at.isoformat(),
    }


def report_from_json(value: object) -> NodeReport:
    """Read a report; fields that a newer agent adds are ignored.

    Raises:
        ValueError: it is not a report, naming the field.
    """
    try:
        return _report(value)
    except DeclarationError as error:
        raise ValueError(str(error)) from error


def _report(value: object) -> NodeReport:
    fields = Fields(value, "report")
    if fields.whole("schema") != SCHEMA:
        raise fields.refuse("schema", str(SCHEMA))
    cordon = fields.raw("cordon")
    return NodeReport(
        node=fields.text("node"),
        instance_id=fields.text("instance_id"),
        boot_id=fields.text("boot_id"),
        sequence=fields.whole("sequence"),
        at=fields.instant("at"),
        snapshot_age_seconds=fields.number("snapshot_age_seconds", least=0),
        health=HealthState(fields.text("health")),
        checks=tuple(_check(each, at) for each, at in fields.each("checks")),
        gpus=sum(1 for _ in fields.each("gpus")),
        busy=None if fields.raw("busy") is None else fields.flag("busy", default=False),
        utilization_ratio=fields.optional_number("utilization_ratio", least=0),
        cordon=None if cordon is None else mark_from_json(cordon, "report.cordon"),
    )


def _check(value: object, path: str) -> CheckResult:
    fields = Fields(value, path)
    return CheckResult(
        check=fields.text("check"),
        health=HealthState(fields.text("health")),
        witness=Witness(fields.text("witness")),
        reason=fields.text("reason"),
        code=str(fields.raw("code") or ""),
        action=Action(fields.text("action", Action.NONE)),
        gpu_uuid=fields.optional_text("gpu_uuid"),
        since=None if fields.raw("since") is None else fields.instant("since"),
    )


def mark_from_json(value: object, path: str = "cordon") -> CordonMark:
    """Read a cordon mark; raises DeclarationError naming the field."""
    fields = Fields(value, path)
    return CordonMark(
        fields.text("owner"),
        fields.whole("epoch"),
        fields.text("reason"),
        fields.flag("drain", default=False),
        fields.instant("at"),
    )


def mark_of(value: Mapping[str, Any], now: datetime) -> CordonMark:
    """A cordon order as a mark set now; raises DeclarationError naming the field."""
    return mark_from_json({**value, "at": now.isoformat()})
