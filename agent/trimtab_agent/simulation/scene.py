"""A group written as words, and rounds of the planner over it: what tests and explanations read as a table.

`Scene(spec, "busy idle sick")` is a group of three serving nodes, i-1 to i-3. Each word says what a node is like.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from trimtab.model.health import CordonMark, HealthState, Witness
from trimtab.model.scaling import GroupSpec
from trimtab_agent.reconciler import history, plan_checks, planner
from trimtab_agent.reconciler.evidence import OWNER
from trimtab_agent.reconciler.history import GroupHistory, History, Orders
from trimtab_agent.reconciler.observation import Ec2Status, GroupObservation, InstanceObservation, Observation, Sample
from trimtab_agent.reconciler.plan import Change, Cordon, Plan, Retire, SetDesired, Uncordon
from trimtab_agent.simulation.reports import report
from trimtab_agent.simulation.world import BOTH, START

OURS = CordonMark(OWNER, 1, "has failed", drain=True, at=START)
CLOSED = CordonMark(OWNER, 1, "may leave", drain=False, at=START)
THEIRS = CordonMark("operator", 1, "under diagnosis", drain=False, at=START)


def node(name: str, word: str, now: datetime, stale_after: timedelta) -> InstanceObservation:
    """An instance as its word says.

    busy, idle, sick (two witnesses), half (one witness), ailing (degraded), vague (health unknown), mute (cannot tell
    whether it is busy), silent (no report), dead (silent and impaired), impaired (reports, but AWS says impaired),
    stale, ahead (clock ahead), pending and leaving (lifecycle); `+ours`, `+closed`, `+theirs` for a cordon, `+busy`.
    """
    kind, *more = word.split("+")
    marks = {"ours": OURS, "closed": CLOSED, "theirs": THEIRS}
    mark = next((marks[each] for each in more if each in marks), None)
    sick = {"sick": BOTH, "half": frozenset({Witness.NVML})}.get(kind, frozenset())
    health = {"ailing": HealthState.DEGRADED, "vague": HealthState.UNKNOWN}.get(kind)
    busy = None if kind == "mute" else kind == "busy" or "busy" in more
    at = {"stale": now - 2 * stale_after, "ahead": now + 2 * stale_after}.get(kind, now)
    said = report(name, at, sequence=int(now.timestamp()), busy=busy, sick=sick, mark=mark, health=health)
    lifecycle = {"pending": "Pending", "leaving": "Terminating"}.get(kind, "InService")
    status = Ec2Status.IMPAIRED if kind in {"dead", "impaired"} else Ec2Status.OK
    quiet = kind in {"silent", "dead", "pending"}
    return InstanceObservation(name, lifecycle, START, status, None if quiet else said, "silent" if quiet else None)


@dataclass(slots=True)
class Scene:
    """One group over several rounds; `words` may change between them, and so may everything else."""

    spec: GroupSpec
    words: str
    signals: Mapping[str, float | None] = field(default_factory=dict)
    desired: int = -1
    memory: History = field(default_factory=History)
    orders: Orders = field(default_factory=Orders)
    now: datetime = START
    problem: str | None = None

    def __post_init__(self) -> None:
        if self.desired < 0:
            self.desired = len(self.words.split())

    @property
    def group(self) -> GroupHistory:
        """What is remembered of the group."""
        return self.memory.of(self.spec.name)

    def observation(self) -> Observation:
        """The scene as one look shows it."""
        limit = self.spec.scaling.stale_after
        nodes = tuple(node(f"i-{i}", word, self.now, limit) for i, word in enumerate(self.words.split(), 1))
        signals = {
            name: Sample(value, self.now if value is not None else None, None if value is not None else "no answer")
            for name, value in self.signals.items()
        }
        name, low, high = self.spec.name, self.spec.min_size, self.spec.max_size
        return Observation(
            self.now, {name: GroupObservation(name, self.desired, low, high, nodes, signals, self.problem)}
        )

    def decide(self, seconds: float = 30) -> Plan:
        """One round whose plan is checked and remembered as done; the scene itself is the caller's to change.

        Raises:
            AssertionError: the plan breaks an invariant.
        """
        self.now += timedelta(seconds=seconds)
        specs, seen = {self.spec.name: self.spec}, self.observation()
        memory = history.note(self.memory, specs, seen)
        planned = planner.plan(specs, seen, memory, self.orders, self.now)
        violations = plan_checks.check(plan_checks.Case(planned.plan, specs, seen, memory, self.orders, self.now))
        if violations:
            raise AssertionError(f"{violations} in {planned.plan.changes}")
        self.memory = history.record(memory, planned.plan, planned.wants, self.now)
        self.desired = self.group.desired if self.group.desired is not None else self.desired
        return planned.plan

    def round(self, words: str | None = None, seconds: float = 30) -> list[str]:
        """The next round's decisions in words, after the nodes became what `words` says."""
        self.words = self.words if words is None else words
        return [said(change) for change in self.decide(seconds).changes]

    def remember(self, **changes: object) -> Scene:
        """The same scene with other memories of its group."""
        memory = replace(self.group, **changes)  # type: ignore[arg-type]  # names and values are the caller's
        return replace(self, memory=History({self.spec.name: memory}))


def said(change: Change) -> str:
    """A change in the shortest words."""
    match change:
        case SetDesired(observed=observed, desired=desired):
            return f"desired {observed}->{desired}"
        case Retire(instance_id=name, decrement=decrement):
            return f"retire {name}{' -1' if decrement else ''}"
        case Cordon(instance_id=name, drain=drain):
            return f"{'drain' if drain else 'close'} {name}"
        case Uncordon(instance_id=name):
            return f"reopen {name}"
    return f"hold: {change.reason.rule}"
