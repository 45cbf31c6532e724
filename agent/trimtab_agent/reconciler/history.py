"""What the planner may remember, as one explicit value: no clock, no hidden state, and the journal can store it.

`note` takes in a new observation before planning; `record` takes in what was executed after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from trimtab.model.scaling import Bound, GroupSpec, Pin, Signal
from trimtab_agent.reconciler import evidence
from trimtab_agent.reconciler.observation import GroupObservation, InstanceObservation, Observation, Sample
from trimtab_agent.reconciler.plan import Cordon, Plan, Retire, SetDesired, Uncordon

EVERYTHING = "*"
RETENTION = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Suspect:
    """Consecutive observations that condemned an instance; `sequence` is the newest report that counted."""

    first_seen: datetime
    count: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Repair:
    """A node that we took out: when, and whether its replacement has been asked for already."""

    since: datetime
    surged_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """One group's memory. `past` holds since when each signal lies past a bound; `wants` the recommendations."""

    last_up: datetime | None = None
    last_down: datetime | None = None
    wants: tuple[tuple[datetime, int], ...] = ()
    past: Mapping[str, datetime] = field(default_factory=dict)
    suspects: Mapping[str, Suspect] = field(default_factory=dict)
    repairs: Mapping[str, Repair] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class History:
    """The memory of all groups."""

    groups: Mapping[str, GroupHistory] = field(default_factory=dict)

    def of(self, group: str) -> GroupHistory:
        """A group's memory; empty for a group never seen."""
        return self.groups.get(group, GroupHistory())


@dataclass(frozen=True, slots=True)
class Orders:
    """What people told the reconciler from the command line: pins by group, pauses by group or `*`, with reasons."""

    pins: Mapping[str, Pin] = field(default_factory=dict)
    paused: Mapping[str, str] = field(default_factory=dict)

    def pause_of(self, group: str) -> str | None:
        """Why a group is paused, or None."""
        return self.paused.get(group, self.paused.get(EVERYTHING))


def note(history: History, specs: Mapping[str, GroupSpec], observation: Observation) -> History:
    """Take in an observation: who is suspect for how long, and since when signals lie past their bounds."""
    seen = {
        name: _note_group(history.of(name), specs[name], group, observation.at)
        for name, group in observation.groups.items()
        if name in specs and group.problem is None
    }
    return History({**{name: history.of(name) for name in specs}, **seen})


def _note_group(memory: GroupHistory, spec: GroupSpec, group: GroupObservation, now: datetime) -> GroupHistory:
    present = {each.instance_id: each for each in group.instances}
    stale_after = spec.scaling.stale_after
    suspects = {name: _suspect(memory.suspects.get(name), each, now, stale_after) for name, each in present.items()}
    return replace(
        memory,
        suspects={name: suspect for name, suspect in suspects.items() if suspect is not None},
        repairs={name: repair for name, repair in memory.repairs.items() if name in present},
        past=dict(_past(memory, spec, group, now)),
        wants=tuple((at, wanted) for at, wanted in memory.wants if now - at <= RETENTION),
    )


def _suspect(
    before: Suspect | None, instance: InstanceObservation, now: datetime, stale_after: timedelta
) -> Suspect | None:
    """Count an observation once; only a fresh report without evidence acquits, unknown changes nothing."""
    sequence = instance.report.sequence if instance.report else int(now.timestamp())
    if not evidence.is_condemned(instance, now, stale_after):
        return None if evidence.fresh_report(instance, now, stale_after) else before
    if before is None:
        return Suspect(now, 1, sequence)
    return before if sequence == before.sequence else replace(before, count=before.count + 1, sequence=sequence)


def _past(memory: GroupHistory, spec: GroupSpec, group: GroupObservation, now: datetime) -> Any:
    for signal in spec.scaling.signals:
        sample = group.signals.get(signal.name)
        for key, bound in ((f"{signal.name}:up", signal.up), (f"{signal.name}:down", signal.down)):
            if bound is not None and is_past(signal, bound, sample):
                yield key, memory.past.get(key, now)


def is_past(signal: Signal, bound: Bound, sample: Sample | None) -> bool:
    """True when a known sample lies beyond a bound: above for up, below for down."""
    if sample is None or sample.value is None:
        return False
    return sample.value > bound.value if bound is signal.up else sample.value < bound.value


def record(history: History, plan: Plan, wants: Mapping[str, int], now: datetime) -> History:
    """Take in the executed plan and each group's recommendation of this round."""
    groups = dict(history.groups)
    for name, wanted in wants.items():
        memory = groups.get(name, GroupHistory())
        groups[name] = replace(memory, wants=(*memory.wants, (now, wanted)))
    for change in plan.changes:
        groups[change.group] = _recorded(groups.get(change.group, GroupHistory()), change, now)
    return History(groups)


def _recorded(memory: GroupHistory, change: Any, now: datetime) -> GroupHistory:
    match change:
        case SetDesired(reason=reason) if reason.rule == "replace-failed-node":
            instance = str(reason.evidence["instance"])
            repair = memory.repairs.get(instance, Repair(now))
            return replace(memory, repairs={**memory.repairs, instance: replace(repair, surged_at=now)})
        case SetDesired(observed=observed, desired=desired) if desired > observed:
            return replace(memory, last_up=now)
        case SetDesired(observed=observed, desired=desired) if desired < observed:
            return replace(memory, last_down=now)
        case Cordon(instance_id=instance):
            return replace(memory, repairs={**memory.repairs, instance: Repair(now)})
        case Uncordon(instance_id=instance) | Retire(instance_id=instance):
            return replace(memory, repairs={key: each for key, each in memory.repairs.items() if key != instance})
    return memory


def to_json(history: History) -> dict[str, Any]:
    """A form that JSON can carry."""
    return {name: _plain(asdict(memory)) for name, memory in history.groups.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def from_json(value: Mapping[str, Any]) -> History:
    """The inverse of to_json; fields that an older version lacks are empty."""
    return History({name: _group_from_json(each) for name, each in value.items()})


def _group_from_json(value: Mapping[str, Any]) -> GroupHistory:
    return GroupHistory(
        last_up=_instant(value.get("last_up")),
        last_down=_instant(value.get("last_down")),
        wants=tuple((datetime.fromisoformat(at), wanted) for at, wanted in value.get("wants", [])),
        past={key: datetime.fromisoformat(at) for key, at in value.get("past", {}).items()},
        suspects={
            key: Suspect(datetime.fromisoformat(each["first_seen"]), each["count"], each["sequence"])
            for key, each in value.get("suspects", {}).items()
        },
        repairs={
            key: Repair(datetime.fromisoformat(each["since"]), _instant(each.get("surged_at")))
            for key, each in value.get("repairs", {}).items()
        },
    )


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
