"""The command without a fleet: help that teaches, usage errors, and errors.py and docs/errors.md held to each other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest
import typer

from trimtab.model import errors
from trimtab_agent.cli import main
from trimtab_agent.cli.durations import parse_duration

ROOT = Path(__file__).resolve().parents[2]
TRIMTAB = Path(sys.executable).parent / "trimtab"
COMMANDS = ("plan", "reconcile", "status", "explain", "pause", "resume", "pin", "unpin", "demo")


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TRIMTAB, *arguments], cwd=cwd, capture_output=True, text=True, check=False)


def kinds() -> list[type[errors.TrimtabError]]:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    return [each for each in classes if issubclass(each, errors.TrimtabError)]


def test_help_lists_every_command_and_where_to_start() -> None:
    words = run("--help").stdout
    assert "Start with `trimtab plan`" in words
    for command in COMMANDS:
        assert command in words


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0
    assert f"Usage: trimtab {command}" in done.stdout


def test_the_version_is_the_distributions() -> None:
    assert re.fullmatch(r"trimtab \d+\.\d+\.\d+\S*\n", run("--version").stdout)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reconcile"], "give --once, or --every"),
        (["reconcile", "--once", "--every", "30s"], "give --once, or --every"),
        (["pin", "train", "3", "--for", "soon", "--reason", "x"], "'soon' is no duration"),
        (["pin", "train", "-3", "--for", "1h", "--reason", "x"], "-3"),
        (["pause"], "--reason"),
        (["plann"], "plann"),
        (["pin", "train", str(2**63), "--for", "1h", "--reason", "x"], "1000000"),
        (["pin", "train", "3", "--for", "1h", "--reason", " "], "say why"),
        (["pause", "--reason", ""], "say why"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_says_what_is_right(arguments: list[str], words: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [["explain", "tr\udcff"], ["plan", "-s", "\udcff"], ["pause", "--reason", "caf\udce9"], ["\udcff"]]
)
def test_an_argument_that_is_not_utf8_is_wrong_usage(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert "is not UTF-8" in done.stderr


def test_a_reader_that_leaves_first_is_no_defect() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{TRIMTAB} --help | true; echo ${{PIPESTATUS[0]}}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() in {"0", "141"}
    assert done.stderr == ""


@pytest.mark.parametrize("error", [BrokenPipeError(), None])
def test_only_a_broken_pipe_is_a_reader_that_left(monkeypatch: pytest.MonkeyPatch, error: OSError | None) -> None:
    def ends(**_: object) -> None:
        try:
            raise error or OSError
        except OSError:
            sys.exit(1)

    monkeypatch.setattr(main, "app", ends)
    monkeypatch.setattr(sys, "argv", ["trimtab"])
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == (1 if error is None else 141)


def test_a_document_needs_neither_an_open_output_nor_its_alphabet(tmp_path: Path) -> None:
    program = "from trimtab_agent.cli import show; show.json_document({'reason': 'caf\u00e9'})"
    command = f'{sys.executable} -c "{program}"'
    for ending in (">&-", f"> {tmp_path / 'out'}"):
        done = subprocess.run(
            ["bash", "-c", f"PYTHONIOENCODING=ascii {command} {ending}"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_a_full_disk_under_the_log_does_not_stop_the_rounds() -> None:
    from trimtab_agent.cli import session, show

    told: list[object] = []

    def loop(_parts: object, _every: object, _stop: object, tell: Callable[[errors.TrimtabError], None]) -> None:
        tell(errors.AwsError("x"))
        told.append(True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trimtab_agent.reconciler.rounds.loop", loop)
        patch.setattr(session, "stop_on_signal", lambda: None)
        patch.setattr(show, "round_line", lambda *_, **__: os.write(os.open("/dev/full", os.O_WRONLY), b"x"))
        session.run_loop(Mock(), timedelta(seconds=1), as_json=False)
    assert told == [True]


def test_outside_a_project_the_error_names_the_option_and_verbose_shows_the_cause(tmp_path: Path) -> None:
    done = run("plan", "--stack", "dev", cwd=tmp_path)
    assert done.returncode == errors.SettingsError.exit_code
    assert done.stderr.splitlines()[0].startswith("error: ")
    assert "--project" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in run("--verbose", "plan", "--stack", "dev", cwd=tmp_path).stderr


def test_help_imports_none_of_the_heavy_libraries() -> None:
    program = "import sys, trimtab_agent.cli.main; print([name for name in ('pulumi', 'boto3', 'sqlalchemy', 'httpx') \
if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("45s", timedelta(seconds=45)),
        ("90m", timedelta(minutes=90)),
        ("2h", timedelta(hours=2)),
        ("1.5d", timedelta(hours=36)),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["", "0s", "-1h", "5", "h", "1h30m", "1e3s", "9999999999999d"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="no duration"):
        parse_duration(text)


def test_each_kind_of_error_has_an_exit_code_of_its_own_and_a_hint() -> None:
    own = {each.exit_code for each in kinds() if "exit_code" in vars(each)}
    assert len(own) == len([each for each in kinds() if "exit_code" in vars(each)])
    assert not own & {0, 2, 130}
    assert all(each.hint.endswith(".") for each in kinds())


@pytest.mark.parametrize("kind", [each for each in kinds() if each is not errors.DeclarationError])
def test_an_error_is_one_sentence_one_hint_and_its_code(
    kind: type[errors.TrimtabError], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.report(kind("what happened")) == kind.exit_code
    told = capsys.readouterr().err
    assert re.fullmatch(r"(error|note): what happened\nnext: .+\n", told)


def test_the_document_holds_exactly_the_codes_kinds_and_hints_of_the_program() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|.*\| (.+) \|$", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE)
    program = [(str(each.exit_code), each.__name__, each.hint) for each in kinds() if "exit_code" in vars(each)]
    assert rows == program
