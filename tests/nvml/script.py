"""Writes the NVML double's script: what the GPUs of one node look like now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Script:
    """One node's GPUs. Values go to all GPUs under `*`, to one under its index, to the node under `-`."""

    path: Path
    values: dict[tuple[str, str], str] = field(default_factory=dict)
    xids: list[tuple[int, int]] = field(default_factory=list)

    def set(self, who: str | int, **values: float | str) -> Script:
        """Change values and write the file."""
        self.values.update({(str(who), key): str(value) for key, value in values.items()})
        return self.write()

    def xid(self, gpu: int, code: int) -> Script:
        """Let the driver report an Xid through its event set."""
        self.xids.append((gpu, code))
        return self.write()

    def replace(self, values: Mapping[tuple[str, str], float | str]) -> Script:
        """Set exactly these values."""
        self.values = {key: str(value) for key, value in values.items()}
        return self.write()

    def write(self) -> Script:
        """Put the whole file in place in one step."""
        order = sorted(self.values.items(), key=lambda item: (item[0][0] not in "-*", item[0]))
        lines = [f"{who} {key} {value}" for (who, key), value in order]
        lines += [f"- xid {number} {gpu} {code}" for number, (gpu, code) in enumerate(self.xids, start=1)]
        scratch = self.path.with_suffix(".new")
        scratch.write_text("\n".join(lines) + "\n", encoding="utf-8")
        scratch.replace(self.path)
        return self
