"""Reports over the wire: what the agent says is what the reconciler reads."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.model.health import Action, CheckResult, CordonMark, HealthState, NodeReport, Witness
from trimtab.model.health_wire import report_from_json, report_to_json

words = st.text(min_size=1, max_size=12).filter(str.strip)
times = st.datetimes(timezones=st.just(UTC))
states = st.sampled_from(HealthState)
results = st.builds(
    CheckResult,
    words,
    states,
    st.sampled_from(Witness),
    words,
    st.text(max_size=8),
    st.sampled_from(Action),
    st.none() | words,
    st.none() | times,
)
marks = st.builds(CordonMark, words, st.integers(0, 2**53), words, st.booleans(), times)
reports = st.builds(
    NodeReport,
    node=words,
    instance_id=words,
    boot_id=words,
    sequence=st.integers(0, 2**53),
    at=times,
    snapshot_age_seconds=st.floats(0, 1e9),
    health=states,
    checks=st.lists(results, max_size=4).map(tuple),
    gpus=st.integers(0, 16),
    busy=st.none() | st.booleans(),
    utilization_ratio=st.none() | st.floats(0, 1),
    cordon=st.none() | marks,
)
PLAIN = report_to_json(
    NodeReport("n", "i", "b", 1, datetime(2030, 1, 1, tzinfo=UTC), 0.0, HealthState.HEALTHY, (), 1, None, None)
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(reports)
def test_a_report_survives_the_wire(report):
    assert report_from_json(json.loads(json.dumps(report_to_json(report)))) == report


def test_what_a_newer_agent_adds_is_ignored():
    assert report_from_json({**PLAIN, "fans": 3}) == report_from_json(PLAIN)


@given(st.sampled_from(sorted(PLAIN)), anything)
def test_a_wrong_value_is_read_or_refused_and_nothing_else(key, value):
    with suppress(ValueError):
        assert isinstance(report_from_json({**PLAIN, key: value}), NodeReport)


@pytest.mark.parametrize("key", ["schema", "node", "instance_id", "boot_id", "sequence", "at", "health"])
def test_a_missing_field_is_refused(key):
    with pytest.raises(ValueError, match=key):
        report_from_json({name: value for name, value in PLAIN.items() if name != key})
