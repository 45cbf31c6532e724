"""The agent's parts put together: what it saw, what it thinks, and the report that says both."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trimtab.model.health import CheckResult, NodeReport, Witness
from trimtab.model.health_wire import report_to_json
from trimtab_agent.node import checks
from trimtab_agent.node.cordon import MarkStore
from trimtab_agent.node.driver_watch import DriverWatch, View
from trimtab_agent.node.incidents import IncidentStore
from trimtab_agent.node.kmsg import Follower
from trimtab_agent.node.seen import Seen
from trimtab_agent.node.verdict import is_busy, utilization, verdict

ROW_FIELDS = frozenset(
    {
        "index",
        "uuid",
        "name",
        "utilization_ratio",
        "memory_used_bytes",
        "memory_total_bytes",
        "temperature_celsius",
        "power_watts",
        "processes",
    }
)


@dataclass(frozen=True, slots=True)
class Settings:
    """How one agent runs; times in seconds."""

    node: str
    instance_id: str
    state: Path
    kmsg: Path
    boot_id: str
    interval: float = 5.0
    deadline: float = 5.0
    first_deadline: float = 20.0
    expected_gpus: int | None = None
    disabled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that is known at one time."""

    view: View
    seen: Seen
    results: tuple[CheckResult, ...]
    report: NodeReport


class Agent:
    """The watchers and stores of one node."""

    def __init__(self, settings: Settings) -> None:
        settings.state.mkdir(parents=True, exist_ok=True)
        self._settings = settings
        self.watch = DriverWatch(settings.interval, settings.deadline, settings.first_deadline)
        self.kernel_log = Follower(settings.kmsg)
        self.marks = MarkStore(settings.state)
        self._incidents = IncidentStore(settings.state, settings.boot_id)

    def start(self) -> None:
        """Begin watching."""
        self.watch.start()
        self.kernel_log.start()

    def stop(self) -> None:
        """End all threads and the worker."""
        self.watch.stop()
        self.kernel_log.stop()

    def findings(self) -> Findings:
        """What is known now; never waits for the driver."""
        self._incidents.add(self.watch.take_xids(), Witness.NVML)
        self._incidents.add(self.kernel_log.take(), Witness.KERNEL_LOG)
        view = self.watch.view()
        seen = Seen(view.snapshot, view.problem, self._incidents.incidents, self._settings.expected_gpus)
        results = checks.run(seen, self._settings.disabled)
        return Findings(view, seen, results, self._report(view, seen, results))

    def _report(self, view: View, seen: Seen, results: tuple[CheckResult, ...]) -> NodeReport:
        return NodeReport(
            self._settings.node,
            self._settings.instance_id,
            self._settings.boot_id,
            view.sequence,
            datetime.now(UTC),
            round(view.age_seconds, 3),
            verdict(results),
            results,
            len(seen.snapshot.gpus),
            is_busy(seen.gpus),
            utilization(seen.gpus),
            self.marks.mark,
        )


def document(findings: Findings, version: str) -> dict[str, Any]:
    """The report as published: the shared form, this agent's version, and a row for each GPU."""
    rows = [
        {**{key: value for key, value in asdict(gpu).items() if key in ROW_FIELDS}, "lost": gpu.lost}
        for gpu in findings.seen.snapshot.gpus
    ]
    return {**report_to_json(findings.report), "agent_version": version, "gpus": rows}
