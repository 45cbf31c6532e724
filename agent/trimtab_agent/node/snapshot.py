"""What the driver says of one node at one time, as frozen data that crosses the worker's pipe as JSON.

A value that the driver does not give is None; a GPU that is lost has no values at all, but still a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. Power in watts, memory in bytes.

    `lost` means that the driver answers "GPU is lost" for it; `problem` names another error in a handle's place.
    """

    index: int
    uuid: str | None = None
    name: str | None = None
    pci: str | None = None
    lost: bool = False
    utilization_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    ecc_uncorrected: int | None = None
    remap_pending: bool | None = None
    remap_failure: bool | None = None
    recovery_action: int | None = None
    processes: int | None = None
    problem: str | None = None

    @property
    def answers(self) -> bool:
        """Whether the driver can reach it."""
        return not self.lost and self.problem is None

    @property
    def label(self) -> str:
        """How a sentence names it."""
        return f"GPU {self.index}"


@dataclass(frozen=True, slots=True)
class Xid:
    """An Xid: its code, the GPU as far as the source knows it, and the source's own words."""

    code: int
    pci: str | None = None
    uuid: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All GPUs of a node. `problem` says why the driver could not be asked at all."""

    driver: str | None = None
    gpus: tuple[Gpu, ...] = ()
    xids: tuple[Xid, ...] = ()
    problem: str | None = None


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """A form that JSON can carry."""
    return asdict(snapshot)


def from_json(value: Mapping[str, Any]) -> Snapshot:
    """The inverse of to_json; unknown keys of another version are dropped."""
    return Snapshot(
        value.get("driver"),
        tuple(Gpu(**_known(Gpu, each)) for each in value.get("gpus", ())),
        tuple(Xid(**_known(Xid, each)) for each in value.get("xids", ())),
        value.get("problem"),
    )


def _known(kind: type, value: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(kind)}
    return {key: item for key, item in value.items() if key in names}
