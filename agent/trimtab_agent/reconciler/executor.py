"""Carries out a plan and decides nothing: orders to agents, then one previewed and policy-checked stack update.

The preview may hold only what the plan asks for. Anything else in it is somebody's unfinished work and stops the round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from trimtab.model.errors import AgentUnreachableError, ExecutionError, PlanRefusedError, StackLockedError
from trimtab.model.scaling import GroupSpec
from trimtab_agent.reconciler import locks
from trimtab_agent.reconciler.engine import Run, Step, Updates
from trimtab_agent.reconciler.evidence import OWNER
from trimtab_agent.reconciler.journal import Lease
from trimtab_agent.reconciler.locks import Lock
from trimtab_agent.reconciler.plan import Change, Cordon, Plan, Retire, SetDesired, Uncordon
from trimtab_agent.reconciler.plugin import Plugin
from trimtab_agent.reconciler.settings import Settings, project_name
from trimtab_agent.reconciler.sources.agents import Agents
from trimtab_agent.reconciler.sources.aws import Aws, SeenGroup
from trimtab_agent.reconciler.stack_state import GROUP_TYPE

ALLOWED = frozenset({"desired", "retire"})
QUIET = frozenset({"same", "refresh", "read"})


def plan_file(
    plan: Plan, specs: Mapping[str, GroupSpec], live: Mapping[str, int], epoch: int, stack: str
) -> dict[str, Any]:
    """What the provider reads: final desired capacity and retirements of each group that the plan touches."""
    groups: dict[str, Any] = {}
    for change in plan.changes:
        if isinstance(change, SetDesired | Retire):
            spec = specs[change.group]
            order = groups.setdefault(spec.urn, {"desired": live[change.group], "retire": []})
            if isinstance(change, SetDesired):
                order["desired"] = change.desired
            else:
                order["retire"].append(_retirement(change))
    return {"id": plan.at.isoformat(), "epoch": epoch, "stack": stack, "groups": groups}


def _retirement(change: Retire) -> dict[str, Any]:
    return {"instanceId": change.instance_id, "decrement": change.decrement, "reason": change.reason.sentence}


def foreign(steps: Iterable[Step], urns: frozenset[str]) -> list[str]:
    """The steps of a preview that the plan did not ask for, in words."""
    return [
        f"{step.operation} {step.type} {step.urn.rsplit('::', 1)[-1]} ({', '.join(sorted(step.differing)) or 'whole'})"
        for step in steps
        if step.operation not in QUIET and not _is_ours(step, urns)
    ]


def _is_ours(step: Step, urns: frozenset[str]) -> bool:
    ours = step.operation == "update" and step.type == GROUP_TYPE and step.urn in urns
    return ours and bool(step.differing) and step.differing <= ALLOWED


class Executor:
    """Everything that a plan needs to become true."""

    def __init__(
        self,
        settings: Settings,
        aws: Aws,
        agents: Agents,
        lease: Lease,
        machinery: Callable[[], tuple[Plugin, Updates]],
    ) -> None:
        self._settings = settings
        self._aws = aws
        self._agents = agents
        self._lease = lease
        self._machinery = machinery

    def execute(self, plan: Plan, specs: Mapping[str, GroupSpec]) -> None:
        """Carry out a plan and see that it happened.

        Raises:
            TrimtabError: what was refused or failed; nothing is retried here.
        """
        for change in plan.changes:
            if isinstance(change, Cordon | Uncordon):
                self._order_agent(change, specs)
        if any(isinstance(change, SetDesired | Retire) for change in plan.changes):
            self._update(plan, specs)

    def _order_agent(self, change: Cordon | Uncordon, specs: Mapping[str, GroupSpec]) -> None:
        self._lease.require()
        seen = self._aws.groups([specs[change.group].group_id])[specs[change.group].group_id]
        address = self._agents.addresses(seen.instances).get(change.instance_id)
        if address is None:
            raise AgentUnreachableError(f"no agent is known for {change.instance_id}")
        body: dict[str, Any] = {"owner": OWNER, "epoch": self._lease.epoch}
        if isinstance(change, Cordon):
            self._agents.order(address, "cordon", {**body, "reason": change.reason.sentence, "drain": change.drain})
        else:
            self._agents.order(address, "uncordon", body)

    def _update(self, plan: Plan, specs: Mapping[str, GroupSpec]) -> None:
        touched = {change.group for change in plan.changes if isinstance(change, SetDesired | Retire)}
        live = {name: group.desired for name, group in self._live(specs, touched).items()}
        orders = plan_file(plan, specs, live, self._lease.epoch, self._settings.stack)
        plugin, updates = self._machinery()
        with plugin.ordered(orders):
            if unlock(updates, self._lease, self._settings):  # the preview must see what the dead run left behind
                updates.refresh()
            self._lease.require()
            self._require_only_ours(updates.preview(), frozenset(orders["groups"]))
            self._lease.require()
            updates.up(message(plan))
        self._verify(plan, specs, touched)

    def _live(self, specs: Mapping[str, GroupSpec], names: Iterable[str]) -> dict[str, SeenGroup]:
        seen = self._aws.groups([specs[name].group_id for name in names])
        return {name: seen[specs[name].group_id] for name in names if specs[name].group_id in seen}

    def _require_only_ours(self, preview: Run, urns: frozenset[str]) -> None:
        others = foreign(preview.steps, urns)
        if others:
            raise PlanRefusedError(f"the preview holds changes that the plan did not ask for: {'; '.join(others)}")

    def _verify(self, plan: Plan, specs: Mapping[str, GroupSpec], touched: Iterable[str]) -> None:
        """Look at AWS: the engine's word is not enough."""
        live = self._live(specs, touched)
        problems = [problem for change in plan.changes if (problem := unmet(change, live))]
        if problems:
            raise ExecutionError("the update succeeded but AWS shows otherwise: " + "; ".join(problems))


def unmet(change: Change, live: Mapping[str, SeenGroup]) -> str | None:
    """What of a change is not true in AWS, or None."""
    group = live.get(change.group)
    if group is None:
        return None if isinstance(change, Cordon | Uncordon) else f"{change.group} is gone"
    if isinstance(change, SetDesired) and group.desired != change.desired:
        return f"{change.group} has desired {group.desired}, not {change.desired}"
    serving = {each.instance_id for each in group.instances if each.lifecycle == "InService"}
    if isinstance(change, Retire) and change.instance_id in serving:
        return f"{change.instance_id} is still in service"
    return None


def message(plan: Plan) -> str:
    """The update's message in the stack's history."""
    sentences = (
        f"{each.group}: {each.reason.sentence}" for each in plan.changes if isinstance(each, SetDesired | Retire)
    )
    return "trimtab: " + " | ".join(dict.fromkeys(sentences))


def unlock(updates: Updates, lease: Lease, settings: Settings) -> bool:
    """Remove the lock of a provably dead run; True when there was one.

    Raises:
        StackLockedError: its owner may be alive.
    """
    held = list(locks.locks(locks.backend_url(), project_name(settings.project), settings.stack))
    if not require_stale(held, settings.stack):
        return False
    lease.require()
    updates.cancel()
    return True


def require_stale(held: Sequence[Lock], stack: str) -> bool:
    """True when the stack has locks and each owner is provably dead, False when it has none.

    Raises:
        StackLockedError: an owner may be alive; it is named.
    """
    alive = [lock.sentence for lock in held if not locks.is_stale(lock)]
    if alive:
        raise StackLockedError(f"stack {stack} is locked by {'; '.join(alive)}")
    return bool(held)
