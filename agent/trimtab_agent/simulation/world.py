"""One scaling group with nodes, jobs, faults, people and metrics, step by step and seeded.

The planner, its checks and its memory are the real ones; the world only does what AWS, the agents, a scheduler and
other people would do. A step is one round of the reconciler.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random

from trimtab.model.health import CordonMark, Witness
from trimtab.model.scaling import GroupSpec
from trimtab_agent.reconciler import history, plan_checks, planner
from trimtab_agent.reconciler.evidence import OWNER
from trimtab_agent.reconciler.history import History, Orders
from trimtab_agent.reconciler.observation import (
    Ec2Status,
    GroupObservation,
    InstanceObservation,
    Observation,
    Sample,
)
from trimtab_agent.reconciler.plan import Cordon, Plan, Retire, SetDesired, Uncordon
from trimtab_agent.simulation.reports import report

START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
BOTH = frozenset({Witness.NVML, Witness.KERNEL_LOG})


@dataclass(slots=True)
class Node:
    """One instance as it really is, whatever its agent says."""

    name: str
    launched_at: datetime
    ready_at: datetime
    job_ends: datetime | None = None
    sick: frozenset[Witness] = frozenset()
    silent_until: datetime | None = None
    impaired: bool = False
    leaving_until: datetime | None = None
    mark: CordonMark | None = None

    @property
    def lifecycle(self) -> str:
        """The auto-scaling lifecycle state; a retired node stays listed for a while."""
        return "Terminating" if self.leaving_until else "InService"


@dataclass(frozen=True, slots=True)
class Chances:
    """How likely each thing is in one step."""

    job: float = 0.2
    sick: float = 0.0
    single_witness: float = 0.0
    heal: float = 0.0
    silence: float = 0.0
    death: float = 0.0
    lost_metrics: float = 0.0
    human_max: float = 0.0
    human_desired: float = 0.0
    human_cordon: float = 0.0
    crash: float = 0.0
    pause: float = 0.0


CALM = Chances(job=0.0)
WILD = Chances(0.4, 0.02, 0.02, 0.05, 0.05, 0.01, 0.1, 0.03, 0.03, 0.02, 0.05, 0.03)


@dataclass(slots=True)
class World:
    """The group, its nodes, and the reconciler's memory; `retired` keeps what each retired node was like."""

    spec: GroupSpec
    seed: int
    chances: Chances = Chances()
    boot: timedelta = timedelta(seconds=90)
    step_length: timedelta = timedelta(seconds=30)
    now: datetime = START
    desired: int = 0
    pending: int = 0
    nodes: dict[str, Node] = field(default_factory=dict)
    memory: History = field(default_factory=History)
    orders: Orders = field(default_factory=Orders)
    retired: list[tuple[Retire, Node]] = field(default_factory=list)
    chance: Random = field(init=False)
    born: int = 0

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)  # noqa: S311  # a seeded world, not a secret
        self.desired = max(self.desired, self.spec.min_size)
        self._launch()

    @property
    def serving(self) -> list[Node]:
        """The nodes that are not on their way out."""
        return [node for node in self.nodes.values() if node.leaving_until is None]

    def happens(self, chance: float) -> bool:
        """Draw once."""
        return self.chance.random() < chance

    def step(self) -> tuple[Plan, tuple[plan_checks.Violation, ...]]:
        """Let time pass, then do one round: observe, plan, check, execute."""
        self.now += self.step_length
        self._nature()
        self._people()
        self._schedule()
        specs, seen = {self.spec.name: self.spec}, self.observe()
        memory = history.note(self.memory, specs, seen)
        planned = planner.plan(specs, seen, memory, self.orders, self.now)
        violations = plan_checks.check(plan_checks.Case(planned.plan, specs, seen, memory, self.orders, self.now))
        self._execute(planned.plan)
        crashed = self.happens(self.chances.crash)
        keep = history.intend if crashed else history.record
        self.memory = keep(memory, planned.plan, planned.wants, self.now)
        if crashed:
            self.memory = history.from_json(history.to_json(self.memory))
        return planned.plan, violations

    def observe(self) -> Observation:
        """What the reconciler sees: AWS's list, the agents that answer, the queue."""
        lost = self.happens(self.chances.lost_metrics)
        sample = Sample(None, None, "the queue does not answer") if lost else Sample(float(self.pending), self.now)
        instances = tuple(self._seen(node) for node in self.nodes.values())
        busy = sum(1 for each in instances if each.report and each.report.busy)
        signals = {"queue": sample, "busy": Sample(float(busy), self.now)}
        group = GroupObservation(
            self.spec.name, self.desired, self.spec.min_size, self.spec.max_size, instances, signals
        )
        return Observation(self.now, {self.spec.name: group})

    def _seen(self, node: Node) -> InstanceObservation:
        status = Ec2Status.IMPAIRED if node.impaired else Ec2Status.OK
        silent = node.impaired or node.ready_at > self.now or node.silent_until is not None
        said = None
        if not silent:
            busy, sequence = node.job_ends is not None, int(self.now.timestamp())
            said = report(node.name, self.now, sequence=sequence, busy=busy, sick=node.sick, mark=node.mark)
        return InstanceObservation(node.name, node.lifecycle, node.launched_at, status, said)

    def _nature(self) -> None:
        """Jobs end, agents fall silent and come back, GPUs fail, AWS finishes terminations."""
        for node in list(self.nodes.values()):
            if node.leaving_until is not None and node.leaving_until <= self.now:
                del self.nodes[node.name]
            if node.job_ends is not None and (node.job_ends <= self.now or (node.mark and node.mark.drain)):
                node.job_ends = None
            if node.silent_until is not None and node.silent_until <= self.now:
                node.silent_until = None
            self._fault(node)

    def _fault(self, node: Node) -> None:
        if self.happens(self.chances.sick):
            node.sick = BOTH
        elif self.happens(self.chances.single_witness):
            node.sick = frozenset({Witness.NVML})
        elif self.happens(self.chances.heal):
            node.sick = frozenset()
        if self.happens(self.chances.silence):
            node.silent_until = self.now + self.step_length * self.chance.randint(1, 8)
        if self.happens(self.chances.death):
            node.impaired, node.job_ends = True, None

    def _people(self) -> None:
        """Others change bounds, sizes, marks and pauses without asking."""
        spec = self.spec
        if self.happens(self.chances.human_max):
            self.spec = replace(spec, max_size=self.chance.randint(spec.min_size + 1, spec.min_size + 12))
            self.desired = min(self.desired, self.spec.max_size + self.chance.choice((0, 0, 2)))
        if self.happens(self.chances.human_desired):
            self.desired = self.chance.randint(self.spec.min_size, self.spec.max_size)
            self._launch()
        if self.serving and self.happens(self.chances.human_cordon):
            node = self.chance.choice(self.serving)
            node.mark = CordonMark("operator", 1, "under diagnosis", False, self.now) if node.mark is None else None
        if self.happens(self.chances.pause):
            self.orders = Orders() if self.orders.paused else Orders(paused={spec.name: "maintenance"})

    def _schedule(self) -> None:
        """Jobs of one node each arrive and start on idle, open, healthy nodes."""
        if self.happens(self.chances.job):
            self.pending += 8 * self.chance.randint(1, 3)
        for node in self.serving:
            free = node.job_ends is None and node.mark is None and not node.sick and not node.impaired
            if free and node.ready_at <= self.now and self.pending >= 8:
                self.pending -= 8
                node.job_ends = self.now + self.step_length * self.chance.randint(2, 40)

    def _execute(self, plan: Plan) -> None:
        """Do what the plan says, as agents and AWS would."""
        for change in plan.changes:
            match change:
                case Cordon(instance_id=name, drain=drain):
                    self.nodes[name].mark = CordonMark(OWNER, 1, change.reason.sentence, drain, self.now)
                case Uncordon(instance_id=name):
                    self.nodes[name].mark = None
                case SetDesired(desired=desired):
                    self.desired = desired
                case Retire():
                    self._retire(change)
        self._launch()

    def _retire(self, change: Retire) -> None:
        node = self.nodes[change.instance_id]
        self.retired.append((change, replace(node)))
        node.leaving_until, node.job_ends = self.now + self.step_length * 3, None

    def _launch(self) -> None:
        """AWS fills the group up to its desired capacity; it never takes a node away by itself."""
        while len(self.serving) < self.desired:
            self.born += 1
            name = f"i-{self.born:04d}"
            self.nodes[name] = Node(name, self.now, self.now + self.boot)
