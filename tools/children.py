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
    """End what is left of the processes' groups: first asked, then after ``GRACE_SECONDS`` made to."""
    left = [process for process in processes if not gone(process)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in left:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        deadline = time.monotonic() + GRACE_SECONDS
        while (left := [process for process in left if not gone(process)]) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)


class Children:
    """The groups of one host that are not known to be gone."""

    def __init__(self) -> None:
        self._groups: set[subprocess.Popen[bytes]] = set()

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a process that leads its own group."""
        process = subprocess.Popen(command, start_new_session=True, preexec_fn=die_with_host, **options)  # noqa: PLW1509  # one system call, no lock
        self._groups.add(process)
        return process

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        """End a group whose call is over, also what its leader left behind; its number is free for others then."""
        end(process)
        self._groups.discard(process)

    def end(self) -> None:
        """End them all."""
        end(*tuple(self._groups))
