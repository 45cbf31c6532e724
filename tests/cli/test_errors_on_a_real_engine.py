"""Each error that a user can meet, provoked for real: one clear message, a next step, an exit code of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]
ROOT = Path(__file__).resolve().parents[2]


def refused(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}{done.stderr}"
    assert len(done.stderr.strip().splitlines()) == 2, done.stderr
    first, second = done.stderr.strip().splitlines()
    assert first.startswith("error: ")
    assert second.startswith("next: ")
    for each in words:
        assert each in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_the_policy_pack_refuses_the_reconcilers_own_update_and_nothing_changes(fleet: Any) -> None:
    (fleet.folder / "pack.json").write_text('{"group-size-ceiling": {"maxNodes": 2}}', encoding="utf-8")
    pack = f'[engine]\npolicy_pack = "{ROOT / "policies"}"\npolicy_config = "{fleet.folder / "pack.json"}"'
    fleet.settings(engine=pack)
    fleet.pending = 16

    refused(fleet.trimtab("reconcile", "--once"), 9, "group-size-ceiling", "train")
    assert fleet.desired() == 1
    assert "PolicyRefusedError" in fleet.json("explain", "train")["actions"][0]["outcome"]


def test_unfinished_work_of_a_person_in_the_program_is_not_applied_by_the_way(fleet: Any) -> None:
    fleet.declare({"train": json_train(fleet)}, **{"trimtab:tags": {"cost-centre": "elsewhere"}})
    fleet.pending = 8
    refused(fleet.trimtab("reconcile", "--once"), 10, "train", "tags")
    assert fleet.desired() == 1

    fleet.pulumi("up", "--yes", "--skip-preview", "--stack", "test")
    fleet.reconcile()
    assert fleet.desired() == 2


def json_train(fleet: Any) -> dict[str, Any]:
    text = (fleet.project / "Pulumi.test.yaml").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("config: "))
    train: dict[str, Any] = json.loads(line.removeprefix("config: "))["trimtab:groups"]["train"]
    return train


def lock(fleet: Any, pid: int, host: str, at: datetime) -> Path:
    """What the engine writes while it updates a stack."""
    folder = fleet.folder / "backend" / ".pulumi" / "locks" / "organization" / "trimtab" / "test"
    folder.mkdir(parents=True, exist_ok=True)
    path: Path = folder / "11111111-2222-3333-4444-555555555555.json"
    words = {"pid": pid, "username": "ann", "hostname": host, "timestamp": at.isoformat()}
    path.write_text(json.dumps(words), encoding="utf-8")
    return path


def test_a_stack_that_somebody_else_updates_is_exit_code_8_and_names_the_owner_until_it_is_provably_dead(
    fleet: Any,
) -> None:
    fleet.pending = 8
    ago = datetime.now(UTC) - timedelta(seconds=1)
    path = lock(fleet, os.getpid(), socket.gethostname(), ago)
    refused(fleet.trimtab("reconcile", "--once"), 8, "ann@", str(os.getpid()))

    lock(fleet, 1, "another-host", ago)
    refused(fleet.trimtab("reconcile", "--once"), 8, "another-host")
    assert path.exists()
    assert fleet.desired() == 1

    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lock(fleet, gone.pid, socket.gethostname(), ago)
    fleet.reconcile()
    assert fleet.desired() == 2
    assert not path.exists()


def test_mistakes_in_set_up_each_have_their_own_words_and_code(fleet: Any) -> None:
    no_keys = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}
    refused(fleet.trimtab("plan", **no_keys), 4, "credentials")
    refused(fleet.trimtab("plan", AWS_ENDPOINT_URL="http://127.0.0.1:9"), 13, "DescribeAutoScalingGroups")
    refused(fleet.trimtab("plan", PATH="/nowhere"), 5, "pulumi")
    refused(fleet.trimtab("plan", "--stack", "prod"), 6, "prod")
    refused(fleet.trimtab("explain", "tarin"), 3, "tarin", "train")
    refused(fleet.trimtab("pin", "tarin", "3", "--for", "1h", "--reason", "typing error"), 3, "tarin", "train")

    fleet.settings(queue='[queue]\nurll = "http://127.0.0.1/"')
    refused(fleet.trimtab("plan"), 3, "trimtab.toml", "queue.urll", "'url'")


def test_a_configuration_that_the_program_refuses_is_exit_code_6_in_the_programs_words(fleet: Any) -> None:
    fleet.pending = 8
    fleet.declare({"train": {**json_train(fleet), "scaling": {"signals": [{"name": "queue", "source": "guess"}]}}})
    refused(fleet.trimtab("reconcile", "--once"), 6, "groups.train.scaling.signals[0].source")
    assert fleet.desired() == 1


def test_a_paused_fleet_is_exit_code_11_changes_nothing_and_resumes(fleet: Any) -> None:
    fleet.pending = 8
    fleet.trimtab("pause", "--reason", "maintenance of the network")
    refused(fleet.trimtab("reconcile", "--once"), 11, "maintenance of the network")
    assert fleet.desired() == 1

    fleet.trimtab("resume")
    fleet.reconcile()
    assert fleet.desired() == 2


def test_a_pin_beats_the_metrics_until_it_is_lifted(fleet: Any) -> None:
    fleet.trimtab("pin", "train", "3", "--for", "1h", "--reason", "big run tonight")
    fleet.reconcile()
    assert fleet.desired() == 3
    assert "big run tonight" in fleet.trimtab("status").stdout

    fleet.follow()
    fleet.pending = 80
    fleet.reconcile()
    assert fleet.desired() == 3

    fleet.trimtab("unpin", "train")
    fleet.reconcile()
    assert fleet.desired() == 4
