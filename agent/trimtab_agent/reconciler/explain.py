"""Answers to "what would happen and why" and "how are things", as plain rows and sentences; drawing is the caller's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trimtab.model.health import HealthState
from trimtab.model.scaling import GroupSpec
from trimtab_agent.reconciler import evidence, scaling
from trimtab_agent.reconciler.history import History, Orders
from trimtab_agent.reconciler.observation import GroupObservation, InstanceObservation, Observation
from trimtab_agent.reconciler.plan import REPLACE_RULE, Change, Cordon, Plan, Retire, SetDesired, Uncordon


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group in `trimtab status`."""

    group: str
    min_size: int
    desired: int | None
    max_size: int
    in_service: int
    usable: int
    busy: int
    unhealthy: int
    unknown: int
    note: str


def group_rows(
    specs: Mapping[str, GroupSpec], observation: Observation, memory: History, orders: Orders
) -> list[GroupRow]:
    """All groups in the order of their names."""
    return [
        _row(specs[name], observation.groups[name], memory, orders, observation.at)
        for name in sorted(specs)
        if name in observation.groups
    ]


def _row(spec: GroupSpec, group: GroupObservation, memory: History, orders: Orders, now: datetime) -> GroupRow:
    stale_after, serving = spec.scaling.stale_after, evidence.in_service(group)
    health = [_health(each, now, spec) for each in serving]
    return GroupRow(
        spec.name,
        spec.min_size,
        group.desired,
        spec.max_size,
        len(serving),
        sum(evidence.is_usable(each, now, stale_after) for each in serving),
        sum(evidence.is_busy(each, now, stale_after) is True for each in serving),
        health.count(HealthState.UNHEALTHY),
        health.count(HealthState.UNKNOWN),
        "; ".join(_notes(spec, group, memory, orders, now)),
    )


def _health(instance: InstanceObservation, now: datetime, spec: GroupSpec) -> HealthState:
    report = evidence.fresh_report(instance, now, spec.scaling.stale_after)
    return HealthState.UNKNOWN if report is None else report.health


def _notes(spec: GroupSpec, group: GroupObservation, memory: History, orders: Orders, now: datetime) -> list[str]:
    pin, pause = scaling.pinned(spec, orders, now), orders.pause_of(spec.name)
    repairs = memory.of(spec.name).repairs
    drift = group.desired is not None and group.desired != spec.desired
    return [
        *([group.problem] if group.problem else []),
        *([f"paused: {pause}"] if pause else []),
        *([f"pinned to {pin.value} until {pin.until:%H:%M} UTC: {pin.reason}"] if pin else []),
        *([f"in repair: {', '.join(sorted(repairs))}"] if repairs else []),
        *([f"changed outside: state says {spec.desired}, AWS {group.desired}"] if drift else []),
        *([] if spec.capacity.value == "reconciler" else [f"owned by {spec.capacity.value}"]),
    ]


def change_sentence(change: Change) -> str:
    """A change as one line: what, then why."""
    why = change.reason.sentence
    match change:
        case SetDesired(observed=observed, desired=desired):
            return f"{change.group}: desired {observed} -> {desired}: {why}"
        case Retire(instance_id=instance, decrement=decrement):
            then = " and shrink" if decrement else " and refill" if change.reason.rule == REPLACE_RULE else ""
            return f"{change.group}: retire {instance}{then}: {why}"
        case Cordon(instance_id=instance, drain=drain):
            return f"{change.group}: cordon{' and drain' if drain else ''} {instance}: {why}"
        case Uncordon(instance_id=instance):
            return f"{change.group}: uncordon {instance}: {why}"
    return f"{change.group}: hold: {why}"


def plan_json(plan: Plan) -> dict[str, Any]:
    """A plan for scripts."""
    return {"at": plan.at.isoformat(), "empty": plan.is_empty, "changes": [change_json(each) for each in plan.changes]}


def change_json(change: Change) -> dict[str, Any]:
    """A change for scripts."""
    fields = {
        name: getattr(change, name)
        for name in ("observed", "desired", "instance_id", "decrement", "drain")
        if hasattr(change, name)
    }
    return {
        "action": type(change).__name__,
        "group": change.group,
        **fields,
        "rule": change.reason.rule,
        "reason": change.reason.sentence,
        "evidence": dict(change.reason.evidence),
    }


def signal_sentences(spec: GroupSpec, group: GroupObservation, memory: History, now: datetime) -> list[str]:
    """What each signal says now and what it wants."""
    remembered = memory.of(spec.name)
    load = scaling.load_of(spec, group, remembered, now)
    votes = [
        scaling.vote(each, group.signals.get(each.name), remembered, load, spec, now) for each in spec.scaling.signals
    ]
    return [f"{each.sentence}; it {_asks(each)}" for each in votes]


def _asks(vote: scaling.Vote) -> str:
    if vote.blocks_shrink:
        return "forbids shrinking"
    return "asks for nothing" if vote.wanted is None else f"wants {vote.wanted}"


def instance_sentences(spec: GroupSpec, instance: InstanceObservation, memory: History) -> list[str]:
    """Everything that is known of one instance."""
    suspect = memory.of(spec.name).suspects.get(instance.instance_id)
    repair = memory.of(spec.name).repairs.get(instance.instance_id)
    report = instance.report
    lines = [f"{instance.instance_id} in {spec.name}: {instance.lifecycle}, AWS status {instance.ec2_status.value}"]
    if report is None:
        return [*lines, f"its agent does not answer: {instance.problem}; it counts as unknown"]
    busy = {True: "has jobs", False: "is idle", None: "may have jobs"}[report.busy]
    lines.append(f"its agent says {report.health.value} (report {report.sequence}); it {busy}")
    lines += [
        f"{each.check} [{each.witness.value}]: {each.reason}"
        for each in report.checks
        if each.health.value not in {"healthy", "not-applicable"}
    ]
    if report.cordon:
        lines.append(f"cordoned by {report.cordon.owner}: {report.cordon.reason}")
    if suspect:
        lines.append(
            f"condemned in {suspect.count} consecutive observations, first at {suspect.first_seen:%H:%M:%S} UTC"
        )
    if repair:
        lines.append(f"in repair since {repair.since:%H:%M:%S} UTC")
    return lines
