"""One round: observe, plan, check, execute. And the loop around it, which no failing round ends."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from trimtab.model.errors import PlanRefusedError, StackLockedError, TrimtabError
from trimtab.model.scaling import GroupSpec
from trimtab_agent.reconciler import engine, history, locks, plan_checks, planner, processes, retention, stack_state
from trimtab_agent.reconciler.engine import Updates
from trimtab_agent.reconciler.executor import Executor, unlock
from trimtab_agent.reconciler.history import History, Orders
from trimtab_agent.reconciler.journal import Journal, Lease
from trimtab_agent.reconciler.observation import Observation
from trimtab_agent.reconciler.observe import observe
from trimtab_agent.reconciler.plan import Hold, Plan, Retire, SetDesired
from trimtab_agent.reconciler.plugin import Plugin
from trimtab_agent.reconciler.settings import Settings, project_name
from trimtab_agent.reconciler.sources.agents import Agents
from trimtab_agent.reconciler.sources.aws import Aws

BACKOFF_FIRST = timedelta(seconds=10)
BACKOFF_FACTOR = 3
BACKOFF_MOST = timedelta(minutes=15)
JITTER = 0.1
UPDATES = frozenset({SetDesired.__name__, Retire.__name__})


@dataclass(frozen=True, slots=True)
class Round:
    """Everything that one round saw and decided."""

    specs: Mapping[str, GroupSpec]
    observation: Observation
    memory: History
    orders: Orders
    plan: Plan
    wants: Mapping[str, int]

    @property
    def silent_agents(self) -> dict[str, str]:
        """Instances whose agent did not answer, with why; those that AWS does not serve yet do not count."""
        return {
            each.instance_id: each.problem or "silent"
            for group in self.observation.groups.values()
            for each in group.instances
            if each.report is None and each.lifecycle == "InService"
        }


class Reconciler:
    """The parts that a round needs, opened once."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        self.settings = settings
        self.journal = journal
        self._aws = Aws(settings.region)
        self._agents = Agents(settings)
        self._machinery: tuple[Plugin, Updates] | None = None

    def close(self) -> None:
        """Give back connections and end the plugin."""
        self._agents.close()
        if self._machinery is not None:
            self._machinery[0].close()

    def warm_up(self) -> tuple[Plugin, Updates]:
        """The plugin and the engine's door, made when first needed and made again when the plugin died."""
        if self._machinery is None or not self._machinery[0].is_alive:
            plugin = Plugin()
            try:
                self._machinery = (plugin, Updates(self.settings, plugin))
            except BaseException:
                plugin.close()
                raise
        return self._machinery

    def look(self) -> Round:
        """Observe and plan; nothing is changed and nothing is written."""
        specs = stack_state.group_specs(engine.export(self.settings))
        observation = observe(specs, self._aws, self._agents, self.settings)
        now = observation.at
        memory, orders = history.note(self.journal.history(), specs, observation), self.journal.orders(now)
        planned = planner.plan(specs, observation, memory, orders, now)
        return Round(specs, observation, memory, orders, planned.plan, planned.wants)

    def decide(self) -> Round:
        """Look, and check the plan.

        Raises:
            PlanRefusedError: the plan breaks an invariant, which is a defect and stops everything.
        """
        seen = self.look()
        case = plan_checks.Case(seen.plan, seen.specs, seen.observation, seen.memory, seen.orders, seen.observation.at)
        violations = plan_checks.check(case)
        if violations:
            raise PlanRefusedError("; ".join(f"{each.invariant}: {each.sentence}" for each in violations))
        return seen

    def once(self, lease: Lease) -> Round:
        """One whole round under a lease, its intent and outcome in the journal (I5)."""
        self._recover(lease)
        decided = self.decide()
        acting = Plan(decided.plan.at, tuple(each for each in decided.plan.changes if not isinstance(each, Hold)))
        if acting.changes:
            self._execute(acting, decided, lease)
        self.journal.save_history(history.record(decided.memory, acting, decided.wants, decided.plan.at))
        return decided

    def _recover(self, lease: Lease) -> None:
        """Close what a dead run began; if it died in an update, the stack's state is made true first."""
        if any(each.kind in UPDATES for each in self.journal.unfinished()):
            _, updates = self.warm_up()
            unlock(updates, lease, self.settings)
            lease.require()
            updates.refresh()
        self.journal.interrupted(datetime.now(UTC))

    def _execute(self, acting: Plan, decided: Round, lease: Lease) -> None:
        identity = decided.plan.at.isoformat()
        self.journal.intend(identity, acting.changes, datetime.now(UTC))
        self.journal.save_history(history.intend(decided.memory, acting, decided.wants, decided.plan.at))
        try:
            Executor(self.settings, self._aws, self._agents, lease, self.warm_up).execute(acting, decided.specs)
        except TrimtabError as error:
            self.journal.conclude(identity, f"{type(error).__name__}: {error}", datetime.now(UTC))
            raise
        self.journal.conclude(identity, "done", datetime.now(UTC))
        project = project_name(self.settings.project)
        retention.prune(locks.backend_url(), project, self.settings.stack, self.settings.history_kept)


def pause_after(failures: int, every: timedelta, chance: random.Random) -> timedelta:
    """The wait for the next round: the interval with jitter, growing from the second failure in a row on."""
    if failures <= 1:
        return every * (1 + chance.uniform(-JITTER, JITTER))
    grown: timedelta = BACKOFF_FIRST * BACKOFF_FACTOR ** min(failures - 2, 5)
    return max(every, min(grown, BACKOFF_MOST))


def loop(
    reconciler: Reconciler,
    every: timedelta,
    stop: threading.Event,
    tell: Callable[[Round | TrimtabError], None],
) -> None:
    """Rounds until `stop`; a round in flight is finished, a failed one is told and followed by a growing pause."""
    failures, chance = 0, random.Random()  # noqa: S311  # jitter, not secrets
    while not stop.is_set():
        started = time.monotonic()
        result = attempt(reconciler)
        tell(result)
        # Somebody else's update is no failure: the next round simply tries again.
        failed = isinstance(result, TrimtabError) and not isinstance(result, StackLockedError)
        failures = failures + 1 if failed else 0
        wait = pause_after(failures, every, chance).total_seconds() - (time.monotonic() - started)
        stop.wait(max(wait, 0))
    with suppress(TrimtabError):
        reconciler.journal.release(processes.myself())


def attempt(reconciler: Reconciler) -> Round | TrimtabError:
    """One round that always comes back; whatever it died of is remembered for `status`."""
    result: Round | TrimtabError
    try:
        result = reconciler.once(reconciler.journal.acquire(datetime.now(UTC)))
    except TrimtabError as error:
        result = error
    except Exception as error:  # noqa: BLE001  # a defect in one round must not stop the steering of the fleet
        result = TrimtabError(f"unforeseen {type(error).__name__}: {error}")
    with suppress(TrimtabError):
        reconciler.journal.note("last_round", datetime.now(UTC).isoformat())
        reconciler.journal.note("last_error", str(result) if isinstance(result, TrimtabError) else "")
    return result
