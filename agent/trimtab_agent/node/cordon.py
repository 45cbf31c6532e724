"""The cordon mark: who asked that no new work starts here. Fenced by epoch, and kept over restarts.

An order with an older epoch than any seen before comes from somebody who lost the lease and is refused.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.model.errors import DeclarationError
from trimtab.model.health import CordonMark
from trimtab.model.health_wire import mark_from_json, mark_to_json


class ConflictError(Exception):
    """The order is stale, or touches somebody else's mark."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The mark that stands, if any, and the highest epoch ever seen."""

    mark: CordonMark | None = None
    epoch: int = 0

    def cordoned(self, order: CordonMark) -> Marks:
        """With a new mark; raises ConflictError for a stale epoch or another owner's mark."""
        self._require_current(order.epoch)
        if self.mark is not None and self.mark.owner != order.owner:
            raise ConflictError(f"already cordoned by {self.mark.owner}")
        return Marks(order, order.epoch)

    def uncordoned(self, owner: str, epoch: int) -> Marks:
        """Without the owner's mark; raises ConflictError for a stale epoch or another owner's mark."""
        self._require_current(epoch)
        if self.mark is not None and self.mark.owner != owner:
            raise ConflictError(f"cordoned by {self.mark.owner}, not by {owner}")
        return Marks(None, epoch)

    def _require_current(self, epoch: int) -> None:
        if epoch < self.epoch:
            raise ConflictError(f"epoch {epoch} is stale; {self.epoch} was seen")


class MarkStore:
    """The marks on disk, written before they are believed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "cordon.json"
        self._lock = threading.Lock()
        self._marks = _read(self._path)

    @property
    def mark(self) -> CordonMark | None:
        """The mark that stands."""
        return self._marks.mark

    def cordon(self, order: CordonMark) -> None:
        """Set a mark; raises ConflictError."""
        with self._lock:
            self._write(self._marks.cordoned(order))

    def uncordon(self, owner: str, epoch: int) -> None:
        """Lift a mark; raises ConflictError."""
        with self._lock:
            self._write(self._marks.uncordoned(owner, epoch))

    def _write(self, marks: Marks) -> None:
        mark = None if marks.mark is None else mark_to_json(marks.mark)
        write_whole(self._path, {"epoch": marks.epoch, "mark": mark})
        self._marks = marks


def _read(path: Path) -> Marks:
    """The stored marks; a file that is no mark file counts as none, because nothing else can be done about it."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        mark = stored.get("mark")
        return Marks(None if mark is None else mark_from_json(mark), int(stored["epoch"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, DeclarationError):
        return Marks()


def write_whole(path: Path, value: Any) -> None:
    """Write JSON in one step, so that a crash leaves the old or the new file."""
    scratch = path.with_suffix(".new")
    scratch.write_text(json.dumps(value), encoding="utf-8")
    scratch.replace(path)
