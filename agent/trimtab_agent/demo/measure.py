"""From what was recorded to the verdict: pure, and only from what AWS, the stack's state and the journal said."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trimtab_agent.demo.scheduler import GPUS_PER_NODE, Scheduler


@dataclass(frozen=True, slots=True)
class Sample:
    """One look: wall seconds since the day began, its hour, AWS's numbers and the scheduler's."""

    wall: float
    hour: float
    desired: int
    in_service: tuple[str, ...]
    busy_gpus: int
    pending_gpus: int


@dataclass
class Facts:
    """What the acts of the story found out, each from its source; None where an act never happened."""

    broken: str | None = None
    injected_wall: float | None = None
    cordoned_wall: float | None = None
    seen_at_injection: frozenset[str] = frozenset()
    replaced_wall: float | None = None
    human: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    events: list[tuple[float, str]] = field(default_factory=list)


def replaced(facts: Facts, sample: Sample) -> bool:
    """True when the broken instance is gone from AWS and one that nobody had seen before serves in its place."""
    if facts.broken is None or facts.injected_wall is None or sample.wall <= facts.injected_wall:
        return False
    return facts.broken not in sample.in_service and bool(set(sample.in_service) - facts.seen_at_injection)


def verdict(samples: Sequence[Sample], facts: Facts) -> dict[str, Any]:
    """The six answers that decide the exit code."""
    first, last = samples[0].desired, samples[-1].desired
    peak = max(sample.desired for sample in samples)
    human, policy = facts.human, facts.policy
    detected = None
    if facts.cordoned_wall is not None and facts.injected_wall is not None:
        detected = round(facts.cordoned_wall - facts.injected_wall, 2)
    return {
        "scaled_out": peak > first,
        "detected_seconds": detected,
        "replaced": facts.replaced_wall is not None,
        "kept_desired_on_human_up": bool(human)
        and human["exit"] == 0
        and human["max_after"] == human["max_wanted"] != human["max_before"]
        and human["desired_before"] == human["desired_after"] == human["state_desired_after"],
        "policy_blocked": bool(policy) and policy["exit"] != 0 and policy["named"] and not policy["role_exists"],
        "scaled_in": last < peak and len(samples[-1].in_service) < peak,
    }


def is_good(answers: dict[str, Any]) -> bool:
    """True when every answer is."""
    return all(value is not None and value is not False for value in answers.values())


def summary(samples: Sequence[Sample], facts: Facts, scheduler: Scheduler, factor: float) -> dict[str, Any]:
    """The day in figures; `factor` is how many seconds of the day one second on the wall is."""
    waits = sorted(scheduler.waits.values())
    injected = facts.injected_wall or 0.0
    return {
        "jobs": len(scheduler.submitted),
        "jobs_finished": scheduler.finished,
        "jobs_requeued": scheduler.requeued,
        "queue_wait_p50_day_minutes": round(percentile(waits, 0.5) / 60, 1),
        "queue_wait_p95_day_minutes": round(percentile(waits, 0.95) / 60, 1),
        "queue_wait_p95_wall_seconds": round(percentile(waits, 0.95) / factor, 1),
        "gpu_hours_paid": round(paid_gpu_hours(samples), 1),
        "gpu_hours_used": round(scheduler.gpu_seconds_used / 3600, 1),
        "peak_nodes": max(sample.desired for sample in samples),
        "replaced_seconds": None if facts.replaced_wall is None else round(facts.replaced_wall - injected, 2),
        "day_seconds_per_wall_second": round(factor),
    }


def paid_gpu_hours(samples: Sequence[Sample]) -> float:
    """GPU-hours of the day that AWS would bill: nodes in service between each two looks."""
    pairs = itertools.pairwise(samples)
    return sum(len(before.in_service) * GPUS_PER_NODE * (after.hour - before.hour) for before, after in pairs)


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of sorted values; 0 for none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0
