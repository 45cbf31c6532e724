"""Declarations in wire form: round trips, and refusals that name the property."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.model import access
from trimtab.model.cost import instance_types, price_of
from trimtab.model.errors import DeclarationError
from trimtab.model.health import Action, CheckResult, CordonMark, HealthState, NodeReport, Witness
from trimtab.model.health_wire import report_from_json, report_to_json
from trimtab.model.scaling import Bound, GroupSpec, Pin, RepairPolicy, ScalingPolicy, Signal

seconds = st.integers(0, 10**6).map(lambda each: timedelta(seconds=each))
numbers = st.floats(0, 10**6, allow_nan=False)
bounds = st.one_of(
    st.builds(Bound, numbers, seconds, nodes=st.integers(1, 99)),
    st.builds(Bound, numbers, seconds, percent=st.floats(0.1, 100)),
    st.builds(Bound, numbers, seconds, per_node=st.floats(0.1, 100)),
)
signals = st.builds(Signal, st.text("abc", min_size=1), st.just("pending_gpus"), up=st.none() | bounds)
instants = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
words = st.text(min_size=1, max_size=12)


@given(st.builds(ScalingPolicy, st.lists(signals, max_size=3, unique_by=lambda each: each.name).map(tuple), seconds))
def test_a_scaling_policy_survives_the_wire(policy):
    assert ScalingPolicy.from_wire(json.loads(json.dumps(policy.to_wire()))) == policy


@given(st.builds(RepairPolicy, st.booleans(), st.integers(2, 9), st.none() | st.integers(0, 9), seconds, seconds))
def test_a_repair_policy_survives_the_wire(policy):
    assert RepairPolicy.from_wire(json.loads(json.dumps(policy.to_wire()))) == policy


@given(st.builds(Pin, st.integers(0, 99), instants, words))
def test_a_pin_survives_the_wire(pin):
    assert Pin.from_wire(json.loads(json.dumps(pin.to_wire()))) == pin


def signal(**change):
    return {"signals": [{"name": "q", "source": "pending_gpus", "up": {"value": 0, "nodes": 1}, **change}]}


@pytest.mark.parametrize(
    ("wire", "path"),
    [
        (3, "scaling"),
        ({"sgnals": []}, "scaling.sgnals"),
        ({"signals": "q"}, "scaling.signals"),
        ({"signals": [3]}, "scaling.signals[0]"),
        (signal(name=""), "scaling.signals[0].name"),
        (signal(source="cpu"), "scaling.signals[0].source"),
        (signal(source="promql"), "scaling.signals[0].query"),
        (signal(query="up"), "scaling.signals[0].query"),
        (signal(up={"value": 0}), "scaling.signals[0].up"),
        (signal(up={"value": 0, "nodes": 1, "percent": 5}), "scaling.signals[0].up"),
        (signal(up={"value": 0, "nodes": 1.5}), "scaling.signals[0].up.nodes"),
        (signal(up={"value": float("nan"), "nodes": 1}), "scaling.signals[0].up.value"),
        (signal(up={"value": True, "nodes": 1}), "scaling.signals[0].up.value"),
        (signal(down={"value": 5, "nodes": 1}), "scaling.signals[0].down.value"),
        ({"cooldownUpSeconds": -1}, "scaling.cooldownUpSeconds"),
        ({"signals": signal()["signals"] * 2}, "scaling.signals"),
    ],
)
def test_a_refusal_names_the_property(wire, path):
    with pytest.raises(DeclarationError) as caught:
        ScalingPolicy.from_wire(wire)

    assert caught.value.path == path


@pytest.mark.parametrize(
    ("wire", "path"),
    [
        ({"minSize": 5, "maxSize": 1}, "g.minSize"),
        ({"minSize": 1}, "g.maxSize"),
        ({"minSize": 1, "maxSize": 2, "capacity": "me"}, "g.capacity"),
        ({"minSize": 1, "maxSize": 2, "pin": {"value": 1}}, "g.pin.until"),
        ({"minSize": 1, "maxSize": 2, "pin": {"value": 1, "until": "soon", "reason": "r"}}, "g.pin.until"),
        ({"minSize": 1, "maxSize": 2, "repair": {"confirmations": 1}}, "g.repair.confirmations"),
    ],
)
def test_a_stored_group_that_makes_no_sense_names_group_and_property(wire, path):
    with pytest.raises(DeclarationError) as caught:
        GroupSpec.from_wire("g", "urn", "id", wire)

    assert caught.value.path == path


def test_a_near_miss_is_suggested():
    with pytest.raises(DeclarationError, match="did you mean 'signals'"):
        ScalingPolicy.from_wire({"sginals": []})


checks = st.builds(
    CheckResult,
    words,
    st.sampled_from(HealthState),
    st.sampled_from(Witness),
    words,
    st.text(max_size=5),
    st.sampled_from(Action),
    st.none() | words,
    st.none() | instants,
)
reports = st.builds(
    NodeReport,
    words,
    words,
    words,
    st.integers(0, 10**9),
    instants,
    st.floats(0, 10**6, allow_nan=False),
    st.sampled_from(HealthState),
    st.lists(checks, max_size=3).map(tuple),
    st.integers(0, 16),
    st.none() | st.booleans(),
    st.none() | st.floats(0, 1, allow_nan=False),
    st.none() | st.builds(CordonMark, words, st.integers(0, 9), words, st.booleans(), instants),
)


@given(reports)
def test_a_report_survives_the_wire(report):
    assert report_from_json(json.loads(json.dumps(report_to_json(report)))) == report


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda each: st.lists(each) | st.dictionaries(st.text(max_size=9), each),
    )
)
def test_nonsense_is_refused_as_a_report(value):
    with pytest.raises(ValueError, match=r".+"):
        report_from_json(value)


def test_prices_are_known_and_unknown_types_have_none():
    assert price_of("p4d.24xlarge", 2) == pytest.approx(65.5452)
    assert price_of("z9.huge", 1) is None
    assert price_of(None, 1) is None
    assert all(each.gpus >= 1 and each.on_demand_usd_per_hour > 0 for each in instance_types().values())


@pytest.mark.parametrize("kind", list(access.Access))
def test_access_documents_are_json_and_grant_no_wildcard(kind):
    document = json.loads(access.policy_document(kind, "north"))
    granted = [action for each in document["Statement"] if each["Effect"] == "Allow" for action in each["Action"]]

    assert granted
    assert not any("*" in action for action in granted)


@pytest.mark.parametrize("principals", [[], ["*"], ["arn:aws:iam::1:root", "arn:aws:iam::*:role/x"]])
def test_a_role_for_nobody_or_everybody_is_refused(principals):
    with pytest.raises(DeclarationError, match="principals"):
        access.trust_document(principals)
