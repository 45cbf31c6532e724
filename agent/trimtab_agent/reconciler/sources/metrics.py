"""Signals from Prometheus, from a queue's endpoint and from the agents' own reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from trimtab.model.health import NodeReport
from trimtab.model.scaling import Signal
from trimtab_agent.reconciler.observation import Sample
from trimtab_agent.reconciler.settings import Settings
from trimtab_agent.reconciler.sources import bounded

PENDING = "trimtab_queue_pending_gpus"


def promql(settings: Settings, signal: Signal) -> Sample:
    """An instant query that must give exactly one sample."""
    if settings.prometheus_url is None:
        return Sample(None, None, "prometheus.url is not set")
    try:
        with httpx.Client(trust_env=False) as client:
            url, query = f"{settings.prometheus_url}/api/v1/query", {"query": signal.query or ""}
            return sample_of(bounded.get(client, url, settings.timeout, query).json())
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return Sample(None, None, f"Prometheus: {error or type(error).__name__}")
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError):
        return Sample(None, None, "Prometheus: the answer is not in its query format")


def sample_of(answer: Any) -> Sample:
    """Prometheus's answer as a sample; none, several and NaN are problems, never zero."""
    if answer.get("status") != "success":
        return Sample(None, None, f"Prometheus: {answer.get('error', 'refused the query')}")
    result = answer["data"]["result"]
    if answer["data"]["resultType"] == "vector":
        if len(result) != 1:
            return Sample(None, None, f"the query gives {len(result)} series, one is needed")
        result = result[0]["value"]
    at, value = datetime.fromtimestamp(float(result[0]), UTC), float(result[1])
    return Sample(value, at) if math.isfinite(value) else Sample(None, at, f"the query gives {result[1]}")


def pending_gpus(settings: Settings, now: datetime) -> dict[str, Sample] | str:
    """GPUs that queued jobs wait for, by group; or why that is not known."""
    if settings.queue_url is None:
        return "queue.url is not set"
    try:
        with httpx.Client(trust_env=False) as client:
            answer = bounded.get(client, settings.queue_url, settings.timeout).raise_for_status()
        return parse_pending(answer.text, now)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return f"{settings.queue_url}: {error or type(error).__name__}"


def parse_pending(text: str, now: datetime) -> dict[str, Sample]:
    """The queue's exposition as samples by group; several queues of a group add up, and NaN in one hides the group."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    totals: dict[str, float] = {}
    for sample in samples:
        if sample.name == PENDING and "group" in sample.labels:
            totals[sample.labels["group"]] = totals.get(sample.labels["group"], 0.0) + sample.value
    return {group: Sample(total, now) for group, total in totals.items() if math.isfinite(total)}


def from_reports(source: str, reports: Sequence[NodeReport], now: datetime) -> Sample:
    """A built-in signal over the nodes that report; no report is a problem, never zero."""
    known = [each for each in reports if each.busy is not None]
    if source == "gpu_utilization":
        ratios = [each.utilization_ratio for each in reports if each.utilization_ratio is not None]
        return Sample(sum(ratios) / len(ratios), now) if ratios else Sample(None, None, "no node reports utilisation")
    if not known:
        return Sample(None, None, "no node reports whether it is busy")
    busy = sum(1 for each in known if each.busy)
    return Sample(busy / len(known) if source == "busy_ratio" else float(busy), now)
