"""What an instance type costs and how many GPUs it has: one table, read once.

Prices are list prices of one region and one day; they bound decisions, they are not an invoice.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One row of the table; prices in USD per hour."""

    name: str
    gpus: int
    on_demand_usd_per_hour: float
    spot_usd_per_hour: float


@cache
def instance_types() -> dict[str, InstanceType]:
    """All known types by name, from data/instance_types.csv (source and licence in its first line)."""
    text = files("trimtab.model").joinpath("data/instance_types.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {
        row["instance_type"]: InstanceType(
            row["instance_type"], int(row["gpus"]), float(row["on_demand_usd_h"]), float(row["spot_usd_h"])
        )
        for row in rows
    }


def price_of(instance_type: str | None, nodes: int) -> float | None:
    """USD per hour of `nodes` instances on demand, or None for a type without a price."""
    known = instance_types().get(instance_type or "")
    return None if known is None else known.on_demand_usd_per_hour * nodes
