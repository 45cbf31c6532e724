"""The findings as Prometheus series. A value that is not known is a series that is not there, never zero."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from trimtab.model.health import HealthState
from trimtab_agent.node.agent import Findings

GPU_GAUGES = (
    ("trimtab_gpu_utilization_ratio", "Share of time in which a kernel ran", "utilization_ratio"),
    ("trimtab_gpu_memory_used_bytes", "Memory in use", "memory_used_bytes"),
    ("trimtab_gpu_memory_total_bytes", "Memory in all", "memory_total_bytes"),
    ("trimtab_gpu_temperature_celsius", "Temperature of the GPU", "temperature_celsius"),
    ("trimtab_gpu_power_watts", "Power drawn", "power_watts"),
    ("trimtab_gpu_ecc_errors", "Uncorrectable volatile ECC errors since the driver was loaded", "ecc_uncorrected"),
    ("trimtab_gpu_row_remap_pending", "1 when a row remap waits for a reset", "remap_pending"),
    ("trimtab_gpu_row_remap_failure", "1 when a row remap failed", "remap_failure"),
    ("trimtab_gpu_recovery_action", "The driver's recommended action, 0 is none", "recovery_action"),
    ("trimtab_gpu_processes", "Processes that compute on the GPU", "processes"),
)
STATE_VALUES = {HealthState.HEALTHY: 0, HealthState.DEGRADED: 1, HealthState.UNKNOWN: 2, HealthState.UNHEALTHY: 3}


class NodeCollector(Collector):
    """Makes the series anew for each scrape from the newest findings."""

    def __init__(self, findings: Callable[[], Findings], node: str, version: str) -> None:
        self._findings = findings
        self._node = node
        self._version = version

    def collect(self) -> Iterable[Any]:
        """All families."""
        found = self._findings()
        yield from self._gpu_families(found)
        yield from self._node_families(found)
        yield self._xids(found)

    def _gpu_families(self, found: Findings) -> Iterator[Any]:
        info = GaugeMetricFamily("trimtab_gpu_info", "Describes a GPU", labels=["node", "gpu_uuid", "index", "model"])
        for gpu in found.seen.snapshot.gpus:
            if gpu.uuid and gpu.answers:
                info.add_metric([self._node, gpu.uuid, str(gpu.index), gpu.name or ""], 1)
        yield info
        for name, words, attribute in GPU_GAUGES:
            family = GaugeMetricFamily(name, words, labels=["node", "gpu_uuid"])
            for gpu in found.seen.snapshot.gpus:
                value = getattr(gpu, attribute)
                if gpu.uuid and value is not None:
                    family.add_metric([self._node, gpu.uuid], float(value))
            yield family

    def _node_families(self, found: Findings) -> Iterator[Any]:
        report, view = found.report, found.view
        single = {
            "trimtab_node_healthy": (
                "1 healthy or degraded, 0 unhealthy; absent while unknown",
                _healthy(report.health),
            ),
            "trimtab_node_cordoned": ("1 while a cordon mark stands", float(report.cordon is not None)),
            "trimtab_node_busy": ("1 while a process computes on a GPU; absent while unknown", _flag(report.busy)),
            "trimtab_gpus_expected": ("GPUs that are declared", _number(found.seen.expected_gpus)),
            "trimtab_gpus_visible": ("GPUs that answer", float(sum(gpu.answers for gpu in found.seen.snapshot.gpus))),
            "trimtab_collect_success": ("1 when the newest look at the driver succeeded", float(view.problem is None)),
            "trimtab_collect_age_seconds": ("Age of the newest good snapshot", view.age_seconds),
            "trimtab_worker_restarts": ("Workers started within ten minutes", float(view.restarts)),
        }
        for name, (words, value) in single.items():
            family = GaugeMetricFamily(name, words, labels=["node"])
            if value is not None:
                family.add_metric([self._node], value)
            yield family
        yield self._checks(found)
        build = GaugeMetricFamily("trimtab_agent_build_info", "The agent's version", labels=["version"])
        build.add_metric([self._version], 1)
        yield build

    def _checks(self, found: Findings) -> Any:
        words = "Worst result of a check: 0 healthy, 1 degraded, 2 unknown, 3 unhealthy"
        family = GaugeMetricFamily("trimtab_check_result", words, labels=["node", "check"])
        worst: dict[str, int] = {}
        for result in found.results:
            if result.health in STATE_VALUES:
                worst[result.check] = max(worst.get(result.check, 0), STATE_VALUES[result.health])
        for check, value in sorted(worst.items()):
            family.add_metric([self._node, check], value)
        return family

    def _xids(self, found: Findings) -> Any:
        family = CounterMetricFamily("trimtab_gpu_xid_events", "Xids since boot", labels=["node", "xid", "witness"])
        counts: dict[tuple[str, str], int] = {}
        for incident in found.seen.incidents:
            key = (str(incident.xid.code), incident.witness.value)
            counts[key] = counts.get(key, 0) + incident.count
        for (code, witness), count in sorted(counts.items()):
            family.add_metric([self._node, code, witness], count)
        return family


def exposition(collector: NodeCollector) -> bytes:
    """The text of one scrape."""
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry)


def _healthy(state: HealthState) -> float | None:
    return None if state is HealthState.UNKNOWN else float(state in {HealthState.HEALTHY, HealthState.DEGRADED})


def _flag(value: bool | None) -> float | None:
    return None if value is None else float(value)


def _number(value: int | None) -> float | None:
    return None if value is None else float(value)
