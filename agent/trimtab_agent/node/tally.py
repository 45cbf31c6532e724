"""Xids that wait to be taken, counted by code and GPU: a flood of one must never push out another."""

from __future__ import annotations

import threading

from trimtab_agent.node.snapshot import Xid

KINDS_MOST = 4096


class Tally:
    """Filled by one thread, emptied by others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[int, str | None], tuple[Xid, int]] = {}

    def add(self, xid: Xid) -> None:
        """Count one in; beyond KINDS_MOST different ones, which no real node has, new kinds are dropped."""
        key = xid.code, xid.pci or xid.uuid
        with self._lock:
            first, count = self._counts.get(key, (xid, 0))
            if count or len(self._counts) < KINDS_MOST:
                self._counts[key] = first, count + 1

    def take(self) -> list[tuple[Xid, int]]:
        """Each kind since the last call, with how often it came."""
        with self._lock:
            taken, self._counts = list(self._counts.values()), {}
        return taken
