"""Declarations: what is accepted comes back unchanged, and what is refused is named by its property."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.model.errors import DeclarationError, SettingsError
from trimtab.model.scaling import Bound, CapacityOwner, GroupSpec, Pin, RepairPolicy, ScalingPolicy, Signal

SECONDS = st.integers(0, 10**6).map(lambda seconds: timedelta(seconds=seconds))
NUMBERS = st.floats(-(10**9), 10**9)
STEPS = st.one_of(
    st.builds(lambda nodes: {"nodes": nodes}, st.integers(1, 1000)),
    st.builds(lambda percent: {"percent": percent}, st.floats(0.1, 1000)),
    st.builds(lambda per_node: {"per_node": per_node}, st.floats(0.1, 1000)),
)
BOUNDS = st.builds(lambda hold, step: Bound(5.0, hold, **step), SECONDS, STEPS)
TEXTS, SIDES = st.text(min_size=1), st.none() | BOUNDS
SIGNALS = st.builds(Signal, TEXTS, st.just("promql"), TEXTS, SIDES, SIDES)
POLICIES = st.builds(
    ScalingPolicy, st.lists(SIGNALS, unique_by=lambda each: each.name, max_size=3).map(tuple), *[SECONDS] * 5
)
REPAIRS = st.builds(RepairPolicy, st.booleans(), st.integers(2, 9), st.none() | st.integers(0, 99), SECONDS, SECONDS)
PINS = st.builds(Pin, st.integers(0, 999), st.datetimes(timezones=st.just(UTC)), st.text(min_size=1))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
GOOD: dict[str, Any] = {
    "signals": [
        {"name": "queue", "source": "pending_gpus", "up": {"value": 0, "perNode": 8}},
        {"name": "load", "source": "promql", "query": "sum(load)", "down": {"value": 5, "holdSeconds": 60, "nodes": 1}},
    ],
    "cooldownUpSeconds": 30,
}


@settings(deadline=None)
@given(POLICIES, REPAIRS, PINS)
def test_what_is_written_is_read_back(policy: ScalingPolicy, repair: RepairPolicy, pin: Pin) -> None:
    assert ScalingPolicy.from_wire(policy.to_wire()) == policy
    assert RepairPolicy.from_wire(repair.to_wire()) == repair
    assert Pin.from_wire(pin.to_wire()) == pin


@settings(deadline=None)
@given(JSON)
def test_anything_at_all_is_accepted_or_refused_by_name(value: Any) -> None:
    for read in (ScalingPolicy.from_wire, RepairPolicy.from_wire, Pin.from_wire):
        refusals = []
        try:
            read(value)
        except DeclarationError as error:
            refusals.append(error.path)
        assert all(refusals)


@pytest.mark.parametrize("seconds", [10**12, 1e300])
def test_a_duration_beyond_all_sense_is_refused(seconds: float) -> None:
    with pytest.raises(DeclarationError, match="at most 315360000 seconds"):
        RepairPolicy.from_wire({"drainDeadlineSeconds": seconds})


def test_nothing_declared_is_the_default() -> None:
    assert ScalingPolicy.from_wire(None) == ScalingPolicy() == ScalingPolicy.from_wire({})
    assert RepairPolicy.from_wire(None) == RepairPolicy()


def test_a_built_in_signal_has_no_query() -> None:
    signal = Signal("queue", "pending_gpus", up=Bound(0.0, per_node=8.0))
    assert Signal.from_wire(signal.to_wire(), "s") == signal
    assert "query" not in signal.to_wire()


def changed(path: list[str | int], value: object) -> dict[str, Any]:
    policy = copy.deepcopy(GOOD)
    target: Any = policy
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return policy


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (["signals", 0, "up", "perNode"], -1, "scaling.signals[0].up.perNode"),
        (["signals", 0, "up", "perNode"], 0, "scaling.signals[0].up"),
        (["signals", 0, "up", "perNode"], float("nan"), "scaling.signals[0].up.perNode"),
        (["signals", 0, "up", "perNode"], float("inf"), "scaling.signals[0].up.perNode"),
        (["signals", 0, "up", "nodes"], 2, "scaling.signals[0].up"),
        (["signals", 0, "up", "value"], True, "scaling.signals[0].up.value"),
        (["signals", 0, "up"], {"value": 1}, "scaling.signals[0].up"),
        (["signals", 0, "up"], {"nodes": 1}, "scaling.signals[0].up.value"),
        (["signals", 0, "up"], {"value": 1, "nodes": 1.5}, "scaling.signals[0].up.nodes"),
        (["signals", 0, "up"], 7, "scaling.signals[0].up"),
        (["signals", 0, "down"], {"value": 1, "nodes": 1}, "scaling.signals[0].down.value"),
        (["signals", 0, "upp"], {}, "scaling.signals[0].upp"),
        (["signals", 0, "name"], "", "scaling.signals[0].name"),
        (["signals", 0, "name"], "load", "scaling.signals"),
        (["signals", 0, "source"], "pending", "scaling.signals[0].source"),
        (["signals", 0, "query"], "up", "scaling.signals[0].query"),
        (["signals", 1, "query"], None, "scaling.signals[1].query"),
        (["signals", 1, "down", "holdSeconds"], -1, "scaling.signals[1].down.holdSeconds"),
        (["signals"], "queue", "scaling.signals"),
        (["signals"], {"queue": 1}, "scaling.signals"),
        (["signals"], [3], "scaling.signals[0]"),
        (["cooldownUpSeconds"], "30", "scaling.cooldownUpSeconds"),
        (["coolDownUpSeconds"], 30, "scaling.coolDownUpSeconds"),
    ],
)
def test_a_wrong_property_is_named(path: list[str | int], value: object, named: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        ScalingPolicy.from_wire(changed(path, value))
    assert refused.value.path == named
    assert str(refused.value).startswith(f"{named}: ")
    assert isinstance(refused.value, SettingsError)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"enabled": "yes"}, "repair.enabled"),
        ({"confirmations": 1}, "repair.confirmations"),
        ({"budget": -1}, "repair.budget"),
        ({"drainDeadlineSeconds": None, "drain": 1}, "repair.drain"),
        ([], "repair"),
    ],
)
def test_a_wrong_repair_policy_is_named(value: object, named: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        RepairPolicy.from_wire(value)
    assert refused.value.path == named


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"value": 1, "until": "tomorrow", "reason": "x"}, "pin.until"),
        ({"value": 1, "until": "2030-01-31T18:00:00Z"}, "pin.reason"),
        ({"value": -1, "until": "2030-01-31T18:00:00Z", "reason": "x"}, "pin.value"),
    ],
)
def test_a_wrong_pin_is_named(value: object, named: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        Pin.from_wire(value)
    assert refused.value.path == named


def test_a_time_without_an_offset_is_utc() -> None:
    pin = Pin.from_wire({"value": 1, "until": "2030-01-31T18:00:00", "reason": "x"})
    assert pin.until == datetime(2030, 1, 31, 18, tzinfo=UTC)


def test_a_misspelled_property_suggests_the_right_one() -> None:
    with pytest.raises(DeclarationError, match="did you mean 'cooldownUpSeconds'"):
        ScalingPolicy.from_wire({"coolDownUpSeconds": 1})
    with pytest.raises(DeclarationError, match="known here: budget, confirmations"):
        RepairPolicy.from_wire({"zzz": 1})


def test_a_long_wrong_value_is_not_repeated_in_the_error() -> None:
    with pytest.raises(DeclarationError) as refused:
        RepairPolicy.from_wire({"enabled": "s" * 41})
    assert "sss" not in str(refused.value)


class TestGroupSpec:
    def test_a_group_is_read_from_state(self) -> None:
        properties = {
            "minSize": 1.0,
            "maxSize": 4.0,
            "desired": 2.0,
            "capacity": "code",
            "instanceType": "p4d.24xlarge",
            "pin": {"value": 3, "until": "2030-01-31T18:00:00Z", "reason": "x"},
            "scaling": GOOD,
        }
        spec = GroupSpec.from_wire("train", "urn:1", "asg-1", properties)
        assert (spec.min_size, spec.max_size, spec.desired, spec.capacity) == (1, 4, 2, CapacityOwner.CODE)
        assert [signal.name for signal in spec.scaling.signals] == ["queue", "load"]

    def test_without_a_number_the_minimum_is_desired(self) -> None:
        assert GroupSpec.from_wire("train", "urn:1", "asg-1", {"minSize": 2, "maxSize": 4}).desired == 2

    @pytest.mark.parametrize(
        ("properties", "named"),
        [
            ({"minSize": 5, "maxSize": 4}, "train.minSize"),
            ({"minSize": 1}, "train.maxSize"),
            ({"minSize": 1, "maxSize": 4, "capacity": "mine"}, "train.capacity"),
            ({"minSize": 1, "maxSize": 4, "scaling": {"x": 1}}, "train.scaling.x"),
        ],
    )
    def test_a_wrong_group_is_named(self, properties: dict[str, Any], named: str) -> None:
        with pytest.raises(DeclarationError) as refused:
            GroupSpec.from_wire("train", "urn:1", "asg-1", properties)
        assert refused.value.path == named
