"""What the checks look at: the driver's newest snapshot and what both logs told since boot. Frozen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trimtab.model.health import Witness
from trimtab_agent.node.snapshot import Gpu, Snapshot, Xid


@dataclass(frozen=True, slots=True)
class Incident:
    """An Xid since boot: who saw it, when first and how often. It stays until the node boots again."""

    xid: Xid
    witness: Witness
    first_at: datetime
    last_at: datetime
    count: int = 1


@dataclass(frozen=True, slots=True)
class Seen:
    """`problem` says why the driver could not be asked now; the snapshot is then an old one and proves nothing.

    `expected_gpus` is what the role declares, None where it declares nothing.
    """

    snapshot: Snapshot
    problem: str | None = None
    incidents: tuple[Incident, ...] = ()
    expected_gpus: int | None = None

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs, none of them when the snapshot is not fresh."""
        return () if self.problem else self.snapshot.gpus
