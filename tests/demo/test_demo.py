"""The whole day, as a user runs it: the object it prints, its exit code, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ANSWERS = ("scaled_out", "detected_seconds", "replaced", "kept_desired_on_human_up", "policy_blocked", "scaled_in")


def family_of(tag: str) -> list[str]:
    """The command lines of all processes whose environment carries the tag."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if tag.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def start(tmp_path: Path, tag: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "trimtab_agent.cli", "demo", "--project", str(ROOT), "--fast", *arguments]
    return subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "TRIMTAB_TEST_TAG": tag, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.engine
@pytest.mark.timeout(240)
def test_the_whole_day_gives_true_answers_and_leaves_nothing_behind(tmp_path):
    tag = f"whole-{os.getpid()}"
    picture = tmp_path / "day.svg"
    process = start(tmp_path, tag, "--json", "--picture", str(picture))

    out, err = process.communicate(timeout=230)

    assert process.returncode == 0, out + err
    answers = json.loads(out)
    assert all(answers[key] for key in ANSWERS), answers
    assert answers["jobs_finished"] == answers["jobs"]
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    assert family_of(tag) == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["day.svg"]


@pytest.mark.engine
@pytest.mark.timeout(120)
def test_a_demo_that_is_interrupted_leaves_nothing_running(tmp_path):
    tag = f"interrupted-{os.getpid()}"
    process = start(tmp_path, tag, "--json")
    deadline = time.monotonic() + 60
    while not any("trimtab_agent.node" in each for each in family_of(tag)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert any("trimtab_agent.node" in each for each in family_of(tag)), "no agent was ever started"

    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=40)

    assert process.returncode == 130
    assert family_of(tag) == []
    assert list(tmp_path.iterdir()) == []
