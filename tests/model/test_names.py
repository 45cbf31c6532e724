"""Names: what a URN says, and owners that fit where AWS keeps them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.model.names import TAG_VALUE_LIMIT, Urn

NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=300)


def test_a_urn_is_taken_apart_and_parents_are_dropped() -> None:
    urn = Urn.parse("urn:pulumi:dev::fleet::trimtab:index:ScalingGroup$trimtab:aws:AutoScalingGroup::train")
    assert (urn.stack, urn.project, urn.type, urn.name) == ("dev", "fleet", "trimtab:aws:AutoScalingGroup", "train")
    assert urn.default_name == "fleet-dev-train"
    assert urn.owner == "fleet/dev/trimtab:aws:AutoScalingGroup/train"


def test_a_name_may_hold_the_separator() -> None:
    assert Urn.parse("urn:pulumi:dev::fleet::t::a::b").name == "a::b"


@pytest.mark.parametrize("text", ["", "train", "urn:pulumi:dev::fleet::t", "urn:aws:dev::fleet::t::train"])
def test_what_is_no_urn_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a Pulumi URN"):
        Urn.parse(text)


@given(NAMES, NAMES)
def test_owners_fit_into_a_tag_and_differ(one: str, two: str) -> None:
    first, second = (Urn.parse(f"urn:pulumi:dev::fleet::t::{name}") for name in (one, two))
    assert len(first.owner) <= TAG_VALUE_LIMIT
    assert (first.owner == second.owner) is (one == two)
