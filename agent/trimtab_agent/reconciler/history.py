"""What the planner may remember, as one explicit value: no clock, no hidden state, and the journal can store it.

`note` takes in a new observation before planning; `record` takes in what was executed after it. `intend`, kept before
an update begins, lets the next `note` tell our own interrupted update from somebody else's change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from trimtab.model.scaling import GroupSpec, Pin
from trimtab_agent.reconciler import evidence
from trimtab_agent.reconciler.observation import GroupObservation, InstanceObservation, Observation
from trimtab_agent.reconciler.plan import REPLACE_RULE, Change, Cordon, Plan, Retire, SetDesired, Uncordon

EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class Suspect:
    """Consecutive observations that condemned an instance; `sequence` is the newest report that counted."""

    first_seen: datetime
    count: int
    sequence: int
    last_seen: datetime


@dataclass(frozen=True, slots=True)
class Repair:
    """A node that we took out: when, and when its replacement was asked for, if it was."""

    since: datetime
    surged_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """One group's memory.

    `wants` holds the recommendations and `past` since when each signal lies past a bound. `surge` is how many nodes
    repair added on top of what was wanted. `desired` is the capacity that we last saw or set, `outside` the pair
    (before, now) when this observation shows that somebody else changed it. `intended` is the memory that holds if
    an update, begun and not heard of again, went through.
    """

    last_up: datetime | None = None
    last_down: datetime | None = None
    wants: tuple[tuple[datetime, int], ...] = ()
    past: Mapping[str, datetime] = field(default_factory=dict)
    suspects: Mapping[str, Suspect] = field(default_factory=dict)
    repairs: Mapping[str, Repair] = field(default_factory=dict)
    surge: int = 0
    desired: int | None = None
    outside: tuple[int, int] | None = None
    intended: GroupHistory | None = None

    @property
    def surged(self) -> int:
        """Repairs whose replacement was asked for; `surge` above this was asked for nodes that no longer need it."""
        return sum(1 for each in self.repairs.values() if each.surged_at is not None)


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
    """Take in an observation: who is suspect for how long, since when signals lie past their bounds, who else acted."""
    seen = {
        name: _note_group(history.of(name), specs[name], group, group.desired, observation.at)
        for name, group in observation.groups.items()
        if name in specs and group.problem is None and group.desired is not None
    }
    return History({**{name: history.of(name) for name in specs}, **seen})


def _note_group(
    memory: GroupHistory, spec: GroupSpec, group: GroupObservation, desired: int, now: datetime
) -> GroupHistory:
    memory = _adopted(_resolved(memory, desired), desired, now)
    serving = {each.instance_id: each for each in evidence.in_service(group)}
    stale_after = spec.scaling.stale_after
    suspects = {name: _suspect(memory.suspects.get(name), each, now, stale_after) for name, each in serving.items()}
    kept = {name: suspect for name, suspect in suspects.items() if suspect is not None}
    return replace(
        memory,
        suspects=kept,
        repairs={
            name: repair
            for name, repair in memory.repairs.items()
            if name in serving and not _is_over(serving[name], name in kept, now, stale_after)
        },
        past=dict(_past(memory, spec, group, now)),
        wants=_recent(memory, spec, desired, now),
    )


def _resolved(memory: GroupHistory, desired: int) -> GroupHistory:
    """After an interrupted update: AWS shows whether it went through."""
    intended = memory.intended
    if intended is not None and desired == intended.desired != memory.desired:
        return intended
    return replace(memory, intended=None)


def _adopted(memory: GroupHistory, desired: int, now: datetime) -> GroupHistory:
    """Somebody else's change of capacity becomes the base, and cooldowns keep us from fighting it at once."""
    before = memory.desired
    if before is None or before == desired:
        return replace(memory, desired=desired, outside=None)
    changed = replace(memory, desired=desired, outside=(before, desired), last_up=now, last_down=now)
    if desired > before:
        return changed
    repairs = {name: replace(repair, surged_at=None) for name, repair in memory.repairs.items()}
    return replace(changed, surge=0, repairs=repairs)


def _recent(memory: GroupHistory, spec: GroupSpec, desired: int, now: datetime) -> tuple[tuple[datetime, int], ...]:
    """The recommendations that a window can still need; without any, what is there now counts as wanted until now."""
    longest = max(spec.scaling.stabilization_up, spec.scaling.stabilization_down)
    kept = tuple((at, wanted) for at, wanted in memory.wants if now - at <= longest)
    return kept or ((now, desired),)


def _suspect(
    before: Suspect | None, instance: InstanceObservation, now: datetime, stale_after: timedelta
) -> Suspect | None:
    """Count an observation once. A fresh report without evidence acquits; unknown changes nothing until it is old."""
    if not evidence.is_condemned(instance, now, stale_after):
        unknown = evidence.fresh_report(instance, now, stale_after) is None
        young = before is not None and now - before.last_seen <= stale_after
        return before if unknown and young else None
    sequence = instance.report.sequence if instance.report else int(now.timestamp())
    if before is None:
        return Suspect(now, 1, sequence, now)
    count = before.count + (sequence != before.sequence)
    return replace(before, count=count, sequence=sequence, last_seen=now)


def _is_over(instance: InstanceObservation, suspected: bool, now: datetime, stale_after: timedelta) -> bool:
    """True when a node in repair is positively well and no longer carries our mark."""
    return not suspected and evidence.is_well(instance, now, stale_after) and evidence.own_mark(instance) is None


def _past(
    memory: GroupHistory, spec: GroupSpec, group: GroupObservation, now: datetime
) -> Iterator[tuple[str, datetime]]:
    for signal in spec.scaling.signals:
        sample = group.signals.get(signal.name)
        value = evidence.known(sample, spec.scaling.stale_after, now)
        if value is None:
            continue
        if signal.up is not None and value > signal.up.value:
            yield f"{signal.name}:up", memory.past.get(f"{signal.name}:up", now)
        if signal.down is not None and value < signal.down.value:
            yield f"{signal.name}:down", memory.past.get(f"{signal.name}:down", now)


def record(history: History, plan: Plan, wants: Mapping[str, int], now: datetime) -> History:
    """Take in the executed plan and each group's recommendation of this round."""
    groups = dict(history.groups)
    for name, wanted in wants.items():
        memory = groups.get(name, GroupHistory())
        groups[name] = replace(memory, wants=(*memory.wants, (now, wanted)))
    for change in plan.changes:
        groups[change.group] = _recorded(groups.get(change.group, GroupHistory()), change, now)
    return History(groups)


def intend(history: History, plan: Plan, wants: Mapping[str, int], now: datetime) -> History:
    """The memory to keep while a plan is carried out, in case nobody lives to say how it ended."""
    after = record(history, plan, wants, now)
    return History({name: replace(memory, intended=after.of(name)) for name, memory in history.groups.items()})


def _recorded(memory: GroupHistory, change: Change, now: datetime) -> GroupHistory:
    match change:
        case SetDesired():
            return _resized(replace(memory, desired=change.desired), change, now)
        case Cordon(instance_id=instance, reason=reason) if reason.rule == REPLACE_RULE:
            return replace(memory, repairs={**memory.repairs, instance: memory.repairs.get(instance, Repair(now))})
        case Retire(instance_id=instance) if instance in memory.repairs:
            replaced = memory.repairs[instance].surged_at is not None
            return _without(replace(memory, surge=memory.surge - replaced), instance)
        case Uncordon(instance_id=instance):
            return _without(memory, instance)
    return memory


def _without(memory: GroupHistory, instance: str) -> GroupHistory:
    return replace(memory, repairs={name: each for name, each in memory.repairs.items() if name != instance})


def _resized(memory: GroupHistory, change: SetDesired, now: datetime) -> GroupHistory:
    """Repair's own steps start no cooldown; scaling uses up what repair asked for in vain."""
    nodes = change.desired - change.observed
    if change.reason.rule != REPLACE_RULE:
        if nodes > 0:
            return replace(memory, last_up=now, surge=memory.surged)
        return replace(memory, last_down=now, surge=max(memory.surged, memory.surge + nodes))
    if nodes < 0:
        return memory
    instance = str(change.reason.evidence["instance"])
    repair = replace(memory.repairs.get(instance, Repair(now)), surged_at=now)
    return replace(memory, surge=memory.surge + nodes, repairs={**memory.repairs, instance: repair})


def to_json(history: History) -> dict[str, Any]:
    """A form that JSON can carry."""
    return {name: _plain(memory) for name, memory in history.groups.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def from_json(value: Mapping[str, Any]) -> History:
    """The inverse of to_json; fields that an older version lacks are empty."""
    return History({name: _group_from_json(each) for name, each in value.items()})


def _group_from_json(value: Mapping[str, Any]) -> GroupHistory:
    outside, intended = value.get("outside"), value.get("intended")
    return GroupHistory(
        last_up=_instant(value.get("last_up")),
        last_down=_instant(value.get("last_down")),
        wants=tuple((datetime.fromisoformat(at), wanted) for at, wanted in value.get("wants", [])),
        past={key: datetime.fromisoformat(at) for key, at in value.get("past", {}).items()},
        suspects={key: _suspect_from_json(each) for key, each in value.get("suspects", {}).items()},
        repairs={
            key: Repair(datetime.fromisoformat(each["since"]), _instant(each.get("surged_at")))
            for key, each in value.get("repairs", {}).items()
        },
        surge=value.get("surge", 0),
        desired=value.get("desired"),
        outside=None if outside is None else (outside[0], outside[1]),
        intended=None if intended is None else _group_from_json(intended),
    )


def _suspect_from_json(value: Mapping[str, Any]) -> Suspect:
    first_seen = datetime.fromisoformat(value["first_seen"])
    return Suspect(first_seen, value["count"], value["sequence"], _instant(value.get("last_seen")) or first_seen)


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
