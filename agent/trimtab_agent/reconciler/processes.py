"""Who holds something, and whether that process is provably gone: host, pid, and the pid's own start.

A pid alone proves nothing because the kernel hands it out again; on another host nothing can be proved at all.
"""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime
from pathlib import Path

START_FIELD = 21
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = stat.rsplit(")", 1)[-1].split()
    state, started = fields[0], int(fields[START_FIELD - 2])
    return None if state in {"Z", "X"} else started


def started_at(pid: int) -> datetime | None:
    """When a process started, as wall-clock time; None when there is no such process."""
    ticks = start_ticks(pid)
    if ticks is None:
        return None
    boot = next(
        int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime")
    )
    return datetime.fromtimestamp(boot + ticks / CLOCK_TICKS, UTC)


def myself() -> str:
    """This process as ``host/pid/start``."""
    return f"{socket.gethostname()}/{os.getpid()}/{start_ticks(os.getpid())}"


def is_gone(holder: str) -> bool:
    """True only when the holder was on this host and its process does not exist any more."""
    host, pid, started = holder.rsplit("/", 2)
    return host == socket.gethostname() and str(start_ticks(int(pid))) != started
