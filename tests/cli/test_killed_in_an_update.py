"""kill -9 while AWS is being changed, then a new run: nothing twice, nothing lost, no lock taken from the living."""

from __future__ import annotations

import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]
SLOW_SECONDS = 3.0


class SlowAws:
    """AWS behind a proxy that takes its time with changes of a group and says when one has arrived."""

    def __init__(self, fleet: Any) -> None:
        self.arrived = threading.Event()
        self._aws = fleet.env["AWS_ENDPOINT_URL"]
        self._server = fleet.serve(self.answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        request = urllib.request.Request(self._aws + path, data=body or None, headers=dict(headers), method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                status, text = reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        if b"Action=UpdateAutoScalingGroup" in body:
            self.arrived.set()
            time.sleep(SLOW_SECONDS)
        return status, text

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def slow_aws(fleet: Any) -> Iterator[SlowAws]:
    made = SlowAws(fleet)
    yield made
    made.close()


def killed_in_an_update(fleet: Any, slow_aws: SlowAws, everything: bool) -> int:
    fleet.pending = 12
    process = fleet.start("reconcile", "--once", AWS_ENDPOINT_URL=slow_aws.url)
    assert slow_aws.arrived.wait(90)
    process.kill()
    if everything:
        for pid in fleet.pids_of(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    return int(process.pid)


@pytest.mark.parametrize("everything", [False, True], ids=["the-reconciler-alone", "with-its-engine"])
def test_the_next_run_finishes_what_a_killed_one_began(fleet: Any, slow_aws: SlowAws, everything: bool) -> None:
    resources = len(fleet.state()["deployment"]["resources"])
    session = killed_in_an_update(fleet, slow_aws, everything)

    deadline = time.monotonic() + 60
    while (done := fleet.trimtab("reconcile", "--once")).returncode == 8:
        assert not everything, "a lock whose owner is dead was not recovered"
        assert time.monotonic() < deadline
        time.sleep(1)

    assert done.returncode == 7, done.stderr  # the new nodes run no agents yet
    assert fleet.desired() == 3
    assert len(fleet.serving()) == 3
    state = fleet.state()["deployment"]
    assert len(state["resources"]) == resources
    assert not state.get("pending_operations")
    group = next(each for each in state["resources"] if each["type"] == "trimtab:aws:AutoScalingGroup")
    assert group["inputs"]["desired"] == 3
    assert list(Path(fleet.folder / "backend" / ".pulumi" / "locks").rglob("*.json")) == []
    assert "interrupted" in {each["outcome"] for each in fleet.json_of("status")["actions"]}
    fleet.wait_until(lambda: fleet.session_of(session) == [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["sigterm", "ctrl-c"])
def test_a_signal_as_a_terminal_sends_it_lets_the_update_in_flight_end_first(
    fleet: Any, slow_aws: SlowAws, number: signal.Signals
) -> None:
    """A terminal signals the whole foreground group, and an impatient person does it twice."""
    fleet.pending = 12
    process = fleet.start("reconcile", "--once", AWS_ENDPOINT_URL=slow_aws.url)
    assert slow_aws.arrived.wait(90)
    for _ in range(2):
        os.killpg(process.pid, number)
        time.sleep(0.5)
    words, _ = process.communicate(timeout=60)
    assert process.returncode == 130, words
    assert fleet.desired() == 3
    assert {each["outcome"] for each in fleet.json_of("status")["actions"]} == {"done"}
    assert fleet.session_of(process.pid) == []
