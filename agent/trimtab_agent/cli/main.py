"""The `trimtab` command. Each subcommand is thin: open the parts, ask, draw; errors end in one sentence and a code."""

from __future__ import annotations

import io
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from trimtab.model.errors import AgentUnreachableError, TrimtabError
from trimtab_agent.cli.durations import parse_duration

app = typer.Typer(
    name="trimtab",
    help="Keeps a GPU fleet in trim: scales groups and replaces failed nodes by previewed, checked stack updates.",
    epilog="Start with `trimtab plan`: it changes nothing. Exit codes are listed in docs/errors.md.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Project = Annotated[Path, typer.Option("--project", "-C", help="Folder that holds Pulumi.yaml and trimtab.toml.")]
Stack = Annotated[
    str | None, typer.Option("--stack", "-s", help="Stack to reconcile; else TRIMTAB_STACK or trimtab.toml.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
HERE = Path()
MOST_NODES = 1_000_000
READER_LEFT = 141


def _version(wanted: bool) -> None:  # typer's callback form
    if wanted:
        from importlib.metadata import version

        typer.echo(f"trimtab {version('trimtab')}")
        raise typer.Exit


def _said(reason: str) -> str:  # typer's callback form
    if not reason.strip():
        raise typer.BadParameter("say why, in a few words")
    return reason


@app.callback()
def options(
    _show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the cause of an error with its traceback.")] = False,
) -> None:
    """Options of every command."""
    global _verbose  # noqa: PLW0603  # read once, when the process ends with an error
    _verbose = verbose


_verbose = False


@app.command()
def plan(project: Project = HERE, stack: Stack = None, as_json: AsJson = False) -> None:
    """Show what a round would do and why. Changes nothing.

    Example: trimtab plan --stack prod --json
    """
    from trimtab_agent.cli import session, show
    from trimtab_agent.reconciler import explain

    with session.reconciler(project, stack) as parts:
        decided = parts.decide()
    if as_json:
        show.json_document(explain.plan_json(decided.plan))
    else:
        show.plan(decided)
    session.require_agents(decided)


@app.command()
def reconcile(
    project: Project = HERE,
    stack: Stack = None,
    once: Annotated[bool, typer.Option("--once", help="One round, then exit.")] = False,
    every: Annotated[
        str | None, typer.Option("--every", help="Rounds for ever, this far apart, for example 30s or 2m.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Observe, plan, check, execute: once, or for ever.

    Examples: trimtab reconcile --once;  trimtab reconcile --every 30s
    """
    from trimtab_agent.cli import session

    if once == (every is not None):
        raise typer.BadParameter("give --once, or --every with a duration such as 30s")
    with session.reconciler(project, stack) as parts:
        if every is None:
            session.run_once(parts, as_json=as_json)
        else:
            session.run_loop(parts, parse_duration(every), as_json=as_json)


@app.command()
def status(project: Project = HERE, stack: Stack = None, as_json: AsJson = False) -> None:
    """Show each group: sizes, health, pins, pauses, repairs, and the last actions."""
    from trimtab_agent.cli import session, show

    with session.reconciler(project, stack) as parts:
        seen, entries = parts.look(), parts.journal.entries(limit=5)
        loop = show.Loop(parts.journal.noted("last_round"), parts.journal.noted("last_error") or None)
    show.status(seen, entries, loop, as_json=as_json)
    session.require_agents(seen)


@app.command()
def explain(
    subject: Annotated[str, typer.Argument(help="A group's name or an instance's id.")],
    project: Project = HERE,
    stack: Stack = None,
    as_json: AsJson = False,
) -> None:
    """Say what is known of a group or an instance, what its signals want, and what was done to it and why."""
    from trimtab_agent.cli import session, show

    with session.reconciler(project, stack) as parts:
        decided, entries = parts.decide(), parts.journal.entries(subject)
    show.explanation(subject, decided, entries, as_json=as_json)


@app.command()
def pause(
    group: Annotated[str | None, typer.Argument(help="A group's name; all groups without it.")] = None,
    reason: Annotated[str, typer.Option("--reason", callback=_said, help="Why, for whoever finds it later.")] = ...,  # type: ignore[assignment]
    project: Project = HERE,
    stack: Stack = None,
) -> None:
    """Let the reconciler change nothing, in one group or at all, until `trimtab resume`."""
    from trimtab_agent.cli import session

    with session.journal(project, stack, group) as journal:
        journal.give_order("pause", session.scope(group), reason)
    typer.echo(f"{group or 'all groups'} paused: {reason}")


@app.command()
def resume(
    group: Annotated[str | None, typer.Argument(help="A group's name; the pause of all groups without it.")] = None,
    project: Project = HERE,
    stack: Stack = None,
) -> None:
    """Lift a pause."""
    from trimtab_agent.cli import session

    with session.journal(project, stack) as journal:
        lifted = journal.lift_order("pause", session.scope(group))
    typer.echo(f"{group or 'all groups'} {'resumed' if lifted else 'was not paused'}")


@app.command()
def pin(
    group: Annotated[str, typer.Argument(help="The group's name.")],
    value: Annotated[
        int, typer.Argument(min=0, max=MOST_NODES, help="Desired capacity to hold; clamped into the group's bounds.")
    ],
    hold: Annotated[str, typer.Option("--for", help="How long, for example 90m or 2h.")] = ...,  # type: ignore[assignment]
    reason: Annotated[str, typer.Option("--reason", callback=_said, help="Why, for whoever finds it later.")] = ...,  # type: ignore[assignment]
    project: Project = HERE,
    stack: Stack = None,
) -> None:
    """Hold a group's desired capacity against all metrics until the pin expires.

    Example: trimtab pin train 8 --for 2h --reason "big run tonight"
    """
    from trimtab_agent.cli import session

    until = datetime.now(UTC) + parse_duration(hold)
    with session.journal(project, stack, group) as journal:
        journal.give_order("pin", group, reason, value, until)
    typer.echo(f"{group} pinned to {value} until {until:%Y-%m-%d %H:%M} UTC: {reason}")


@app.command()
def unpin(
    group: Annotated[str, typer.Argument(help="The group's name.")], project: Project = HERE, stack: Stack = None
) -> None:
    """Lift a pin that `trimtab pin` set."""
    from trimtab_agent.cli import session

    with session.journal(project, stack) as journal:
        lifted = journal.lift_order("pin", group)
    typer.echo(f"{group} {'unpinned' if lifted else 'was not pinned'}")


@app.command()
def demo(
    project: Project = HERE,
    fast: Annotated[bool, typer.Option("--fast", help="The same day in under a minute.")] = False,
    as_json: AsJson = False,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Where to write the picture of the day (SVG).")
    ] = None,
) -> None:
    """Play a recorded day of a GPU cluster on a real engine: surge, broken GPU, human change, bad role, quiet.

    Everything runs on this machine against a simulated AWS, and nothing is left running.
    """
    from trimtab_agent.demo.main import run

    raise typer.Exit(run(project.resolve(), fast=fast, as_json=as_json, picture=picture))


def main() -> None:
    """Entry of the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal's alphabet is no reason to fail
    try:
        require_text(sys.argv[1:])
        code = app(standalone_mode=False)
    except TrimtabError as error:
        code = report(error)
    except typer.Exit as error:
        code = error.exit_code
    except typer.Abort:
        code = 130
    except SystemExit as error:  # typer and rich end so when a pipe breaks
        code = READER_LEFT if isinstance(error.__context__, BrokenPipeError) else error.code
    except Exception as error:  # noqa: BLE001  # usage errors of click, and anything unforeseen, end in one sentence
        code = unforeseen(error)
    sys.exit(code if isinstance(code, int) else 0)


def require_text(arguments: list[str]) -> None:
    """Object to bytes that are no text: names, journal and engine know only text."""
    for each in arguments:
        if any("\ud800" <= letter <= "\udfff" for letter in each):
            raise typer.BadParameter(f"{each!r} is not UTF-8")


def report(error: TrimtabError) -> int:
    """Say what went wrong and what to do next; the exit code is the error's own."""
    if _verbose:
        import traceback

        traceback.print_exception(error)
    kind = "note" if isinstance(error, AgentUnreachableError) else "error"
    typer.echo(f"{kind}: {error}\nnext: {error.hint}", err=True)
    return error.exit_code


def unforeseen(error: Exception) -> int:
    """Usage errors show themselves; anything else is a defect, said so without a traceback unless asked for."""
    shown = getattr(error, "show", None)
    if shown is not None:
        shown()
        return int(getattr(error, "exit_code", 2))
    return report(TrimtabError(f"unforeseen {type(error).__name__}: {error}"))
