"""Keeps the newest snapshot, whatever the driver does: a deadline for each, and a new worker for a hung one.

Readers never wait. While the driver hangs they get the last snapshot with its growing age, and the problem's name.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from trimtab_agent.node.snapshot import Snapshot, Xid, from_json
from trimtab_agent.node.tally import Tally

TERMINATE_GRACE_SECONDS = 0.5
RESTARTS_MOST = 5
RESTARTS_WINDOW_SECONDS = 600.0
UNRESPONSIVE = "driver unresponsive"


@dataclass(frozen=True, slots=True)
class View:
    """The newest snapshot, its age, and what is wrong with asking for a newer one."""

    snapshot: Snapshot
    age_seconds: float
    problem: str | None
    sequence: int
    restarts: int


class DriverWatch:
    """One thread that asks the worker, and the value that everybody else reads."""

    def __init__(self, interval: float, deadline: float, first_deadline: float) -> None:
        """All in seconds; a worker's first answer may take longer, because it starts and opens the driver first."""
        self._interval = interval
        self._deadline = deadline
        self._first_deadline = first_deadline
        self._answered = False
        self._lock = threading.Lock()
        self._snapshot, self._at = Snapshot(problem="not asked yet"), time.monotonic()
        self._problem: str | None = "not asked yet"
        self._sequence = 0
        self._xids = Tally()
        self._worker: subprocess.Popen[bytes] | None = None
        self._restarts: deque[float] = deque()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="driver-watch", daemon=True)

    def start(self) -> None:
        """Begin asking."""
        self._thread.start()

    def stop(self) -> None:
        """End the worker and the thread."""
        self._stop.set()
        self._discard_worker()
        self._thread.join(timeout=2)

    def view(self) -> View:
        """What is known now; never waits for the driver."""
        with self._lock:
            age = time.monotonic() - self._at
            return View(self._snapshot, age, self._problem, self._sequence, len(self._restarts))

    def take_xids(self) -> list[tuple[Xid, int]]:
        """The driver's own Xids since the last call, counted."""
        return self._xids.take()

    def _run(self) -> None:
        while not self._stop.is_set():
            started = time.monotonic()
            answer = self._ask()
            with self._lock:
                self._take(answer)
            self._stop.wait(max(0.0, self._interval - (time.monotonic() - started)))

    def _take(self, answer: Snapshot | None) -> None:
        if answer is None:
            self._problem = UNRESPONSIVE
            return
        self._problem = answer.problem
        for xid in answer.xids:
            self._xids.add(xid)
        self._sequence += 1
        if answer.problem is None:
            self._snapshot, self._at = answer, time.monotonic()

    def _ask(self) -> Snapshot | None:
        """One snapshot, or None when the worker missed its deadline or died."""
        worker = self._worker if self._worker and self._worker.poll() is None else self._new_worker()
        if worker is None or worker.stdin is None or worker.stdout is None:
            return None
        try:
            worker.stdin.write(b"\n")
            worker.stdin.flush()
            line = read_line(worker.stdout.fileno(), self._deadline if self._answered else self._first_deadline)
            answer = from_json(json.loads(line)) if line else None
        except (OSError, ValueError):
            answer = None
        self._answered = answer is not None
        if answer is None:
            self._discard_worker()
        return answer

    def _new_worker(self) -> subprocess.Popen[bytes] | None:
        """A new worker, unless too many were needed lately: a driver that hangs each one is not helped by more."""
        now = time.monotonic()
        while self._restarts and now - self._restarts[0] > RESTARTS_WINDOW_SECONDS:
            self._restarts.popleft()
        if len(self._restarts) > RESTARTS_MOST:
            return None
        self._restarts.append(now)
        self._answered = False
        command = [sys.executable, "-m", "trimtab_agent.node.worker"]
        self._worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self._worker

    def _discard_worker(self) -> None:
        """Ask it to go, then make it; one that hangs in the kernel is left behind and never waited for."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.terminate()
        with suppress(subprocess.TimeoutExpired):
            worker.wait(TERMINATE_GRACE_SECONDS)
        if worker.poll() is None:
            worker.kill()
            with suppress(subprocess.TimeoutExpired):
                worker.wait(TERMINATE_GRACE_SECONDS)
        for pipe in (worker.stdin, worker.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def read_line(descriptor: int, seconds: float) -> bytes:
    """One line from a pipe, or what came before the deadline or the pipe's end: then without a newline, thus empty."""
    deadline, chunks = time.monotonic() + seconds, b""
    while not chunks.endswith(b"\n"):
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        chunk = os.read(descriptor, 65536) if ready else b""
        if not chunk:
            return b""
        chunks += chunk
    return chunks
