"""The table of prices: read whole, and plausible row by row."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from trimtab.model.cost import instance_types, price_of

TABLE = files("trimtab.model").joinpath("data/instance_types.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "gpus"),
    [
        ("g4dn.metal", 8),
        ("g4dn.12xlarge", 4),
        ("g4dn.16xlarge", 1),
        ("g5.24xlarge", 4),
        ("g5.48xlarge", 8),
        ("g6.16xlarge", 1),
        ("g6e.12xlarge", 4),
        ("p3.16xlarge", 8),
        ("p3dn.24xlarge", 8),
        ("p4d.24xlarge", 8),
        ("p5.48xlarge", 8),
    ],
)
def test_a_known_type_has_its_gpus(name: str, gpus: int) -> None:
    assert instance_types()[name].gpus == gpus


def test_every_row_is_read_and_spot_is_cheaper() -> None:
    assert len(instance_types()) == len(TABLE.splitlines()) - 2
    for each in instance_types().values():
        assert 0 < each.spot_usd_per_hour < each.on_demand_usd_per_hour
        assert re.fullmatch(r"[a-z0-9]+\.[a-z0-9]+", each.name)
        assert each.gpus in {1, 2, 4, 8}


def test_the_table_names_its_source_and_licence() -> None:
    assert "Source:" in TABLE.splitlines()[0]
    assert "Apache-2.0" in TABLE.splitlines()[0]


def test_a_price_is_for_all_nodes_and_unknown_types_have_none() -> None:
    assert price_of("p4d.24xlarge", 3) == pytest.approx(3 * 32.7726)
    assert price_of("p4d.24xlarge", 0) == 0
    assert price_of("m5.large", 3) is None
    assert price_of(None, 3) is None
