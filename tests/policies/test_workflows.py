"""The workflows give nobody more than they need: the same rule that the pack has for people."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

WORKFLOWS = sorted((Path(__file__).resolve().parents[2] / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+")


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.name)
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture
def workflow(path: Path) -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_there_are_workflows() -> None:
    assert {path.name for path in WORKFLOWS} >= {"checks.yml", "preview.yml"}


def test_nothing_is_permitted_unless_a_job_asks_for_it(workflow: dict[Any, Any]) -> None:
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert job["permissions"]
        assert set(job["permissions"].values()) <= {"read", "write"}


def test_no_job_both_runs_the_changes_code_and_may_write(workflow: dict[Any, Any]) -> None:
    for job in workflow["jobs"].values():
        runs_code = any(step.get("uses", "").startswith("actions/checkout@") for step in job["steps"])
        assert not (runs_code and "write" in job["permissions"].values())


def test_every_action_is_pinned_to_a_commit(path: Path) -> None:
    used = re.findall(r"uses: (.+)", path.read_text(encoding="utf-8"))
    assert [each for each in used if not PINNED.fullmatch(each)] == []


def test_checkouts_leave_no_token_behind(workflow: dict[Any, Any]) -> None:
    for step in steps(workflow):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_forks_get_no_secret_and_no_trusted_run(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "pull_request_target" not in text
    assert "secrets." not in text


def test_no_script_is_put_together_from_what_a_stranger_wrote(workflow: dict[Any, Any]) -> None:
    assert [step["run"] for step in steps(workflow) if "${{" in step.get("run", "")] == []


def test_every_job_ends_and_newer_runs_replace_older(workflow: dict[Any, Any]) -> None:
    assert workflow["concurrency"]["cancel-in-progress"] is True
    assert all(job["timeout-minutes"] <= 60 for job in workflow["jobs"].values())
