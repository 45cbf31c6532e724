"""Drawing for people, and the same facts as JSON for scripts. Colour only on a terminal (rich sees to that)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from trimtab.model.errors import SettingsError, TrimtabError
from trimtab_agent.reconciler import explain
from trimtab_agent.reconciler.journal import Entry
from trimtab_agent.reconciler.plan import Hold
from trimtab_agent.reconciler.rounds import Round

console = Console(highlight=False, soft_wrap=True)


def json_document(value: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(value, default=str))


def plan(decided: Round, *, done: bool = False) -> None:
    """A plan in words, what is done before what is held."""
    acting = [each for each in decided.plan.changes if not isinstance(each, Hold)]
    for change in acting:
        console.print(f"[bold green]{'done' if done else 'plan'}[/]  {escape(explain.change_sentence(change))}")
    for hold in (each for each in decided.plan.changes if isinstance(each, Hold)):
        console.print(f"[yellow]hold[/]  {escape(f'{hold.group}: {hold.reason.sentence}')}")
    if not acting:
        console.print(f"Nothing to do in {len(decided.specs)} groups.")


def escape(text: str) -> str:
    """Text that holds no markup."""
    from rich.markup import escape as escaped

    return escaped(text)


def round_line(result: Round | TrimtabError, *, as_json: bool) -> None:
    """One line for each round of the loop; a quiet round says nothing to people."""
    now = datetime.now(UTC)
    if as_json:
        body = {"error": str(result)} if isinstance(result, TrimtabError) else explain.plan_json(result.plan)
        json_document({"round_at": now.isoformat(), **body})
    elif isinstance(result, TrimtabError):
        console.print(f"{now:%H:%M:%S} [bold red]error[/] {escape(str(result))}")
    else:
        for change in result.plan.changes:
            if not isinstance(change, Hold):
                console.print(f"{now:%H:%M:%S} [bold green]done[/]  {escape(explain.change_sentence(change))}")


@dataclass(frozen=True, slots=True)
class Loop:
    """When `reconcile --every` last finished a round, and what stopped that round, if anything did."""

    last_round: str | None
    last_error: str | None


def status(seen: Round, entries: list[Entry], loop: Loop, *, as_json: bool) -> None:
    """All groups and the last actions."""
    rows = explain.group_rows(seen.specs, seen.observation, seen.memory, seen.orders)
    if as_json:
        actions = [asdict(each) for each in entries]
        json_document({"groups": [asdict(row) for row in rows], "actions": actions, **asdict(loop)})
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("group", "min", "desired", "max", "in service", "usable", "busy", "unhealthy", "unknown", ""):
        table.add_column(title, justify="left" if title in {"group", ""} else "right")
    for row in rows:
        cells = [str(value) for value in asdict(row).values()]
        style = "red" if row.unhealthy else "yellow" if row.unknown or row.note else None
        table.add_row(*map(escape, cells), style=style)
    console.print(table)
    console.print(f"\nlast round: {loop.last_round or 'never'}")
    if loop.last_error:
        console.print(f"[bold red]it failed:[/] {escape(loop.last_error)}")
    actions_list(entries)


def actions_list(entries: list[Entry]) -> None:
    """The journal's newest actions."""
    for each in entries:
        outcome = each.outcome or "under way"
        what = f"{each.kind} {each.instance or ''}".strip()
        console.print(
            f"{each.intent_at:%m-%d %H:%M:%S}  {escape(f'{each.group}: {what}: {each.sentence} [{outcome}]')}"
        )


def explanation(subject: str, decided: Round, entries: list[Entry], *, as_json: bool) -> None:
    """What is known of a group or an instance.

    Raises:
        SettingsError: nothing has that name.
    """
    sentences = group_sentences(subject, decided) or instance_sentences(subject, decided)
    if not sentences and not entries:
        known = ", ".join(sorted(decided.specs)) or "none"
        raise SettingsError(f"{subject!r} is neither a group ({known}) nor an instance of one")
    if as_json:
        json_document({"subject": subject, "now": sentences, "actions": [asdict(each) for each in entries]})
        return
    for sentence in sentences:
        console.print(escape(sentence))
    if entries:
        console.print("\n[bold]what was done[/]")
        actions_list(entries)


def group_sentences(name: str, decided: Round) -> list[str]:
    """A group's numbers, signals and what this round would do."""
    spec, group = decided.specs.get(name), decided.observation.groups.get(name)
    if spec is None or group is None:
        return []
    sizes = f"{name}: desired {group.desired} in [{spec.min_size}, {spec.max_size}], owned by {spec.capacity.value}"
    signals = explain.signal_sentences(spec, group, decided.memory, decided.observation.at)
    changes = [explain.change_sentence(each) for each in decided.plan.changes if each.group == name]
    return [sizes, *signals, *(changes or ["nothing would change now"])]


def instance_sentences(identity: str, decided: Round) -> list[str]:
    """An instance's health and repair."""
    for name, group in decided.observation.groups.items():
        for instance in group.instances:
            if instance.instance_id == identity:
                return explain.instance_sentences(decided.specs[name], instance, decided.memory)
    return []
