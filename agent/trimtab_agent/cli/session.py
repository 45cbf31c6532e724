"""What the commands share: settings to open parts, one round, and the loop with its signals."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import typer

from trimtab.model.errors import AgentUnreachableError, PausedError, SettingsError, TrimtabError
from trimtab_agent.cli import show
from trimtab_agent.reconciler import engine, explain, rounds, settings, stack_state
from trimtab_agent.reconciler.history import EVERYTHING
from trimtab_agent.reconciler.journal import Journal
from trimtab_agent.reconciler.rounds import Reconciler, Round

STOPPED = 130


@contextmanager
def journal(project: Path, stack: str | None, group: str | None = None) -> Iterator[Journal]:
    """The journal of a stack; a named group must exist, so that a typing error holds nothing."""
    found = settings.load(project, stack)
    if group is not None:
        known = stack_state.group_specs(engine.export(found))
        if group not in known:
            raise SettingsError(
                f"stack {found.stack} has no group {group!r}; it has {', '.join(sorted(known)) or 'none'}"
            )
    opened = Journal(found.journal)
    try:
        yield opened
    finally:
        opened.close()


def scope(group: str | None) -> str:
    """A group, or everything."""
    return EVERYTHING if group is None else group


@contextmanager
def reconciler(project: Path, stack: str | None) -> Iterator[Reconciler]:
    """A reconciler with everything opened."""
    with journal(project, stack) as opened:
        parts = Reconciler(settings.load(project, stack), opened)
        try:
            yield parts
        finally:
            parts.close()


def require_agents(seen: Round) -> None:
    """Object when an agent was silent, after everything else was done and shown.

    Raises:
        AgentUnreachableError: naming the instances.
    """
    silent = seen.silent_agents
    if silent:
        words = "; ".join(f"{name} ({why})" for name, why in sorted(silent.items())[:5])
        more = f" and {len(silent) - 5} more" if len(silent) > 5 else ""
        raise AgentUnreachableError(f"no report from {words}{more}; these nodes count as unknown")


def run_once(parts: Reconciler, *, as_json: bool) -> None:
    """One round under the lease. A first SIGINT or SIGTERM waits for its end, so that no update is torn.

    Raises:
        PausedError: everything is paused, so the round could do nothing.
    """
    lease = parts.journal.acquire(datetime.now(UTC))
    stop = stop_on_signal()
    try:
        decided = parts.once(lease)
    finally:
        lease.release()
    if as_json:
        show.json_document(explain.plan_json(decided.plan))
    else:
        show.plan(decided, done=True)
    if stop.is_set():
        raise typer.Exit(STOPPED)
    if EVERYTHING in decided.orders.paused:
        raise PausedError(f"everything is paused: {decided.orders.paused[EVERYTHING]}")
    require_agents(decided)


def stop_on_signal() -> threading.Event:
    """An event that SIGINT and SIGTERM set from now on, instead of ending the process."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def run_loop(parts: Reconciler, every: timedelta, *, as_json: bool) -> None:
    """Rounds until SIGINT or SIGTERM; the round in flight is finished first."""
    stop = stop_on_signal()

    def tell(result: Round | TrimtabError) -> None:
        try:
            show.round_line(result, as_json=as_json)
        except BrokenPipeError:
            raise
        except OSError:  # a log's full disk does not stop the steering; the journal knows what was done
            return

    parts.warm_up()
    rounds.loop(parts, every, stop, tell)
