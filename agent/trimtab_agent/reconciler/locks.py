"""The engine's own lock on a stack: who holds it, and whether that process is provably dead.

The file backend's lock has no expiry, so a killed engine leaves it for ever; and `pulumi cancel` removes it without
looking, which would let two updates run. So it is removed only on proof.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from trimtab_agent.reconciler import processes

CLOCK_SLACK = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class Lock:
    """One lock file's words."""

    host: str
    pid: int
    user: str
    at: datetime

    @property
    def sentence(self) -> str:
        """The owner in words."""
        age = datetime.now(UTC) - self.at
        return f"{self.user}@{self.host}, pid {self.pid}, for {age.total_seconds():.0f} s"


UNREADABLE = Lock("unknown host", 0, "unknown user", datetime.fromtimestamp(0, UTC))


def is_stale(lock: Lock) -> bool:
    """True only on proof: same host, and the pid is gone or was given to a younger process."""
    if lock.host != socket.gethostname():
        return False
    started = processes.started_at(lock.pid)
    return started is None or started > lock.at + CLOCK_SLACK


def locks(backend: str | None, project: str, stack: str) -> Iterator[Lock]:
    """The locks of a stack in a file backend; nothing can be said of other backends."""
    root = file_backend(backend)
    if root is None:
        return
    for path in sorted((root / "locks" / "organization" / project / stack).glob("*.json")):
        try:
            yield parse(json.loads(path.read_text(encoding="utf-8")))
        except OSError:
            continue
        except (ValueError, KeyError, TypeError):
            yield UNREADABLE


def file_backend(url: str | None) -> Path | None:
    """The folder in which a file backend keeps its own, or None for another backend."""
    if not url or not url.startswith("file://"):
        return None
    return Path(url.removeprefix("file://").split("?")[0]).expanduser() / ".pulumi"


def parse(words: dict[str, Any]) -> Lock:
    """A lock file's content."""
    at = datetime.fromisoformat(words["timestamp"])
    return Lock(words["hostname"], int(words["pid"]), words["username"], at)


def backend_url() -> str | None:
    """The backend in force: the environment's, else the login's; None when neither says."""
    if named := os.environ.get("PULUMI_BACKEND_URL"):
        return named
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    try:
        current: str | None = json.loads((home / "credentials.json").read_text(encoding="utf-8")).get("current")
    except (OSError, ValueError):
        return None
    return current
