"""The processes that the language host starts: each leads a group of its own, and no group outlives its engine.

A group of their own keeps a Ctrl-C on the terminal away from plugins, which the engine wants to end in its own order,
and lets the host reach what a program has started in turn.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from ctypes import CDLL
from typing import Any

PR_SET_PDEATHSIG = 1
LIBC = CDLL(None)
GRACE_SECONDS = 2.0
POLL_SECONDS = 0.05


def die_with_host() -> None:
    """Ask the kernel for SIGTERM when the host dies; called in each child before it starts."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def gone(process: subprocess.Popen[bytes]) -> bool:
    """Whether nothing of the process's group is left."""
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return True
    return False


def end(*processes: subprocess.Popen[bytes]) -> None:
    """End the groups of running processes: first asked, then after ``GRACE_SECONDS`` made to."""
    left = [process for process in processes if process.poll() is None]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in left:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        deadline = time.monotonic() + GRACE_SECONDS
        while (left := [process for process in left if not gone(process)]) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)


class Children:
    """The running ones."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a process that leads its own group and that this host remembers."""
        process = subprocess.Popen(command, start_new_session=True, preexec_fn=die_with_host, **options)  # noqa: PLW1509  # one system call, no lock
        self._running = [each for each in self._running if each.poll() is None] + [process]
        return process

    def end(self) -> None:
        """End them all."""
        end(*self._running)
