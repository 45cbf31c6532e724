"""The pure parts: catalogue, verdict, metrics' absence of the unknown."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from trimtab.model.health import Action, CheckResult, HealthState, Witness
from trimtab_agent.node import checks
from trimtab_agent.node.checks import xid
from trimtab_agent.node.seen import Incident, Seen
from trimtab_agent.node.snapshot import Gpu, Snapshot, Xid, from_json, to_json
from trimtab_agent.node.verdict import is_busy, merged, utilization, verdict

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def result(health):
    return CheckResult("c", health, Witness.NVML, "because")


def incident(code):
    return Incident(Xid(code), Witness.KERNEL_LOG, NOW, NOW)


def test_no_result_is_unknown():
    assert verdict([]) is HealthState.UNKNOWN
    assert verdict([result(HealthState.NOT_APPLICABLE)]) is HealthState.UNKNOWN


@pytest.mark.parametrize(
    ("states", "worst"),
    [
        (["healthy", "degraded"], "degraded"),
        (["degraded", "unknown"], "unknown"),
        (["unknown", "unhealthy"], "unhealthy"),
        (["healthy", "not-applicable"], "healthy"),
    ],
)
def test_the_worst_state_wins(states, worst):
    assert verdict([result(HealthState(each)) for each in states]) is HealthState(worst)


def test_nvsentinel_1826_each_catalogue_row_has_a_known_kind_and_action():
    entries = xid.catalogue().values()

    assert len(entries) > 170
    assert {each.kind for each in entries} == {"user-app", "driver", "hardware", "legacy-unused"}
    assert all(each.action is Action.NONE for each in entries if each.kind == "legacy-unused")
    assert not any(xid.judged(incident(each.code)) for each in entries if each.kind == "user-app")


@pytest.mark.parametrize("code", [48, 64, 79, 95, 119, 120, 140, 143])
def test_hardware_faults_condemn(code):
    judged = xid.judged(incident(code))

    assert judged is not None
    assert judged.health is HealthState.UNHEALTHY
    assert judged.action in xid.CONDEMNING


@pytest.mark.parametrize("code", [13, 31, 43, 45, 94, 121, 109 + 1000])
def test_codes_that_say_nothing_against_the_node_do_not_condemn(code):
    judged = xid.judged(incident(code))

    assert judged is None or judged.health is not HealthState.UNHEALTHY


def test_old_snapshots_prove_nothing():
    seen = Seen(Snapshot("1", (Gpu(0, lost=True), Gpu(1, "u", ecc_uncorrected=9))), problem="driver unresponsive")

    assert verdict(checks.run(seen)) is HealthState.UNKNOWN


def test_incidents_of_the_same_kind_are_counted_not_repeated():
    once = merged((), [(Xid(79, "p"), 1), (Xid(79, "p"), 1), (Xid(79, "q"), 1)], Witness.NVML, NOW)

    assert [(each.xid.pci, each.count) for each in once] == [("p", 2), ("q", 1)]


def test_busy_is_unknown_where_nobody_can_tell():
    assert is_busy(()) is None
    assert is_busy((Gpu(0, processes=0), Gpu(1, processes=None))) is None
    assert is_busy((Gpu(0, processes=1), Gpu(1, processes=None))) is True
    assert is_busy((Gpu(0, processes=0), Gpu(1, lost=True))) is False
    assert is_busy((Gpu(0, lost=True),)) is None
    assert utilization((Gpu(0),)) is None


maybe_text = st.none() | st.text(max_size=8)
gpus = st.builds(
    Gpu,
    st.integers(0, 15),
    maybe_text,
    maybe_text,
    maybe_text,
    st.booleans(),
    processes=st.none() | st.integers(0, 9),
    recovery_action=st.none() | st.integers(0, 9),
)
snapshots = st.builds(Snapshot, maybe_text, st.lists(gpus, max_size=4).map(tuple), st.just(()), maybe_text)


@given(snapshots)
def test_a_snapshot_survives_the_pipe(snapshot):
    assert from_json(to_json(snapshot)) == snapshot


def test_metrics_have_no_series_for_what_is_unknown(well):
    well.script.set(2, error="nvmlDeviceGetTemperature=3")
    well.eventually(lambda each: each["gpus"][2]["temperature_celsius"] is None)

    families = {family.name: family for family in text_string_to_metric_families(well.get("/metrics"))}
    temperatures = {each.labels["gpu_uuid"][-1] for each in families["trimtab_gpu_temperature_celsius"].samples}
    powers = {each.labels["gpu_uuid"][-1] for each in families["trimtab_gpu_power_watts"].samples}

    assert temperatures == set("0134567")
    assert powers == set("01234567")
    assert "trimtab_gpus_expected" not in families or not families["trimtab_gpus_expected"].samples
