"""Xids since boot, kept over restarts of the agent and forgotten with the boot: a reboot is what clears them."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trimtab.model.health import Witness
from trimtab_agent.node.cordon import write_whole
from trimtab_agent.node.seen import Incident
from trimtab_agent.node.snapshot import Xid
from trimtab_agent.node.verdict import merged

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def read_boot_id(path: Path = BOOT_ID) -> str:
    """The kernel's name for this boot."""
    return path.read_text(encoding="ascii").strip()


class IncidentStore:
    """The incidents of this boot."""

    def __init__(self, folder: Path, boot_id: str) -> None:
        self._path = folder / "incidents.json"
        self._lock = threading.Lock()
        self._boot_id = boot_id
        self._incidents = _read(self._path, boot_id)
        self._is_unsaved = False

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """All of this boot."""
        return self._incidents

    def add(self, counted: list[tuple[Xid, int]], witness: Witness) -> None:
        """Count Xids in. A disk that takes no file must not silence the report: the next call tries again."""
        with self._lock:
            if counted:
                self._incidents = merged(self._incidents, counted, witness, datetime.now(UTC))
                self._is_unsaved = True
            if self._is_unsaved:
                with suppress(OSError):
                    self._save()

    def _save(self) -> None:
        write_whole(self._path, {"boot_id": self._boot_id, "incidents": [_to_json(each) for each in self._incidents]})
        self._is_unsaved = False


def _to_json(incident: Incident) -> dict[str, Any]:
    return {
        "xid": asdict(incident.xid),
        "witness": incident.witness.value,
        "first_at": incident.first_at.isoformat(),
        "last_at": incident.last_at.isoformat(),
        "count": incident.count,
    }


def _read(path: Path, boot_id: str) -> tuple[Incident, ...]:
    """The stored incidents of this boot; those of another boot, or a file that cannot be read, count as none."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        rows = stored["incidents"] if stored["boot_id"] == boot_id else []
        return tuple(_from_json(row) for row in rows)
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _from_json(row: dict[str, Any]) -> Incident:
    return Incident(
        Xid(**row["xid"]),
        Witness(row["witness"]),
        datetime.fromisoformat(row["first_at"]),
        datetime.fromisoformat(row["last_at"]),
        int(row["count"]),
    )
