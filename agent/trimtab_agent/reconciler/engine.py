"""The door to the Pulumi engine: exports, previews and updates of one stack, with its errors in our words."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trimtab.model.errors import (
    EngineMissingError,
    ExecutionError,
    PolicyRefusedError,
    StackError,
    StackLockedError,
    TrimtabError,
)
from trimtab_agent.reconciler.plugin import Plugin
from trimtab_agent.reconciler.settings import Settings

ENGINE_SECONDS = 120
LOCKED = "the stack is currently locked"
INLINE = "python inline source runtime error: "


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a preview or update: what the engine does to which resource, and which properties differ."""

    operation: str
    urn: str
    type: str
    differing: frozenset[str]


@dataclass
class Run:
    """What a preview or update said through its events."""

    steps: list[Step] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def take(self, event: Any) -> None:
        """Keep what matters of one engine event."""
        if event.resource_pre_event is not None:
            data = event.resource_pre_event.metadata
            differing = frozenset(data.detailed_diff or ()) | frozenset(data.diffs or ())
            self.steps.append(Step(str(getattr(data.op, "value", data.op)), data.urn, data.type, differing))
        elif event.policy_event is not None and event.policy_event.enforcement_level == "mandatory":
            policy = event.policy_event
            self.violations.append(
                f"{policy.policy_name} on {policy.resource_urn.rsplit('::', 1)[-1]}: {one_line(policy.message)}"
            )
        elif event.diagnostic_event is not None and event.diagnostic_event.severity == "error":
            self.errors.append(one_line(event.diagnostic_event.message))


def one_line(words: str) -> str:
    """The engine's words as one sentence: of a program's traceback only what was raised."""
    head, _, trace = words.removeprefix(INLINE).partition("Traceback (most recent call last):")
    raised = trace.strip().splitlines()[-1:]
    told = raised and raised[0].split(": ", 1)[-1] in head
    return " ".join(" ".join([head, *([] if told else raised)]).split())


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the engine's processes see: ours, without attempts to download plugins or updates."""
    fixed = {"PULUMI_SKIP_UPDATE_CHECK": "true", "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true"}
    return {**fixed, **(extra or {})}


def require_engine() -> str:
    """The engine's path.

    Raises:
        EngineMissingError: there is none on PATH.
    """
    found = shutil.which("pulumi")
    if found is None:
        raise EngineMissingError("the Pulumi engine `pulumi` is not on PATH")
    return found


def run_command(settings: Settings, *arguments: str) -> str:
    """The output of a short engine command on the stack.

    Raises:
        StackError: the engine refused, with its own words.
    """
    command = [require_engine(), *arguments, "--non-interactive", "--stack", settings.stack]
    where = f"stack {settings.stack} in {settings.project}"
    try:
        done = subprocess.run(
            command,
            cwd=settings.project,
            env={**os.environ, **environment()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ENGINE_SECONDS,
            process_group=0,  # a Ctrl-C in the terminal is ours alone
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise StackError(f"{where}: `pulumi {arguments[0]}` gave no answer in {ENGINE_SECONDS} s") from error
    if done.returncode:
        raise StackError(f"{where}: {' '.join(done.stderr.replace('error:', '').split())}")
    return done.stdout


def export(settings: Settings) -> dict[str, Any]:
    """The stack's state as the backend holds it, secrets encrypted."""
    state: dict[str, Any] = json.loads(run_command(settings, "stack", "export"))
    return state


class Updates:
    """Previews and updates of one stack through the Automation API.

    The preview runs with the policy pack and saves what it saw as an update plan; the update is bound to that plan, so
    nothing is applied that was not previewed and allowed.

    A Python program runs in this process, which saves a language host and an interpreter in every command; a program in
    another language runs as `pulumi up` runs it.
    """

    def __init__(self, settings: Settings, plugin: Plugin) -> None:
        """Select the stack; raises StackError when it cannot be."""
        require_engine()
        from pulumi import automation

        from trimtab_agent.reconciler.engine_command import EngineCommand

        extra = environment({"PULUMI_DEBUG_PROVIDERS": f"trimtab:{plugin.port}"})
        workspace = automation.LocalWorkspace(
            work_dir=str(settings.project), env_vars=extra, pulumi_command=EngineCommand()
        )
        workspace.program = program_of(settings.project, workspace.project_settings())
        try:
            self._stack = automation.Stack.select(settings.stack, workspace)
        except automation.errors.CommandError as error:
            raise StackError(f"stack {settings.stack}: {' '.join(str(error).split())[:400]}") from error
        self._bound = str(plugin.plan_file.with_name("update-plan.json"))
        self._policies: dict[str, Any] = {
            "policy_packs": [str(settings.policy_pack)] if settings.policy_pack else None,
            "policy_pack_configs": [str(settings.policy_config)] if settings.policy_config else None,
        }

    def preview(self) -> Run:
        """What an update would do, judged by the policy pack; nothing is changed."""
        return self._run(self._stack.preview, StackError, plan=self._bound, **self._policies)

    def up(self, message: str) -> Run:
        """Apply exactly what the last preview saw; the message stays in the stack's history."""
        return self._run(self._stack.up, ExecutionError, message=message, plan=self._bound)

    def cancel(self) -> None:
        """Remove the stack's lock, whoever holds it."""
        from pulumi.automation import errors

        try:
            self._stack.cancel()
        except errors.CommandError as error:
            raise StackError(f"the stack's lock cannot be removed: {one_line(str(error))}") from error

    def refresh(self) -> None:
        """Bring the state to what is live, and forget creations that a dead run left open; create adopts them."""
        self._run(self._stack.refresh, StackError, clear_pending_creates=True)

    def _run(self, operation: Any, failure: type[TrimtabError], **options: Any) -> Run:
        from pulumi.automation import errors

        run = Run()
        try:
            operation(on_event=run.take, **options)
        except errors.ConcurrentUpdateError as error:
            raise StackLockedError("the stack is locked by another update") from error
        except errors.CommandError as error:
            raise refusal(run, str(error), failure) from error
        return run


def program_of(project: Path, declared: Any) -> Callable[[], None] | None:
    """The project's program as a function, or None when it is not in Python."""
    runtime = declared.runtime if isinstance(declared.runtime, str) else declared.runtime.name
    if runtime != "python":
        return None
    folder = (project / (declared.main or ".")).resolve()
    return lambda: run_program(folder)


def run_program(folder: Path) -> None:
    """Run a program anew, as it is on disk now; its own modules are forgotten afterwards."""
    sys.path.insert(0, str(folder))
    try:
        runpy.run_path(str(folder), run_name="__main__")
    finally:
        sys.path.remove(str(folder))
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file and Path(file).is_relative_to(folder) and ".venv" not in Path(file).parts:
                del sys.modules[name]


def refusal(run: Run, words: str, failure: type[TrimtabError]) -> TrimtabError:
    """The engine's failure as one of our errors: `failure`, unless it has a kind of its own."""
    if run.violations:
        return PolicyRefusedError("; ".join(run.violations))
    if LOCKED in words:
        return StackLockedError("the stack is locked by another update")
    said = run.errors or [line.strip() for line in words.splitlines() if "error" in line.lower()][-3:]
    return failure("the engine refused: " + "; ".join(dict.fromkeys(said)))
