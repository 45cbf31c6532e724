"""What went wrong elsewhere, in public, must not go wrong here. Each test is named after the report."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from trimtab.model.scaling import Bound, GroupSpec, ScalingPolicy, Signal
from trimtab_agent.simulation.scene import Scene

SPEC = GroupSpec("train", "urn:1", "asg-1", 1, 10, 3)
QUEUE = Signal("queue", "pending_gpus", up=Bound(0, per_node=8))


def test_nvsentinel_450_faults_that_waited_while_the_agent_was_silent_are_not_acted_on_later() -> None:
    """Events queued behind an open breaker were replayed when it closed."""
    scene = Scene(SPEC, "sick idle idle")
    assert scene.round() == []
    assert scene.round("silent idle idle", seconds=60) == []
    assert scene.round(seconds=3600) == []
    assert scene.group.suspects == {}
    assert scene.round("sick idle idle") == []  # counted afresh: this is the first observation


def test_nvsentinel_450_a_frozen_burst_that_recovers_leaves_nothing_to_replay() -> None:
    scene = Scene(SPEC, "sick sick idle")
    assert [scene.round(), scene.round()] == [[], ["hold: correlated-faults"]]
    assert scene.round("idle idle idle") == []
    assert scene.round("sick idle idle") == []


def test_nvsentinel_121_a_drain_that_is_over_because_the_node_recovered_ends_in_no_retirement() -> None:
    """A drain was cancelled, and the reboot came all the same."""
    scene = Scene(SPEC, "sick+busy idle idle")
    assert [scene.round(), scene.round()] == [[], ["drain i-1"]]
    assert scene.round("sick+ours+busy idle idle") == ["hold: replace-failed-node"]
    assert scene.round("idle+ours idle idle") == ["reopen i-1"]
    assert [scene.round("idle idle idle") for _ in range(5)] == [[]] * 5


def test_nvsentinel_1424_a_node_that_somebody_else_cordoned_is_never_uncordoned() -> None:
    scene = Scene(SPEC, "idle+theirs idle idle")
    assert [scene.round() for _ in range(5)] == [[]] * 5


def test_nvsentinel_1424_nor_is_a_failed_one_taken_from_whoever_works_on_it() -> None:
    scene = Scene(SPEC, "sick+theirs idle idle")
    assert [scene.round(), scene.round()] == [[], ["hold: replace-failed-node"]]


def test_nvsentinel_1451_an_older_recovery_does_not_cancel_a_newer_fault() -> None:
    """A recovery lifted the quarantine that a second fault had just set."""
    scene = Scene(SPEC, "sick+busy idle idle")
    assert [scene.round(), scene.round()] == [[], ["drain i-1"]]
    assert scene.round("idle+ours idle idle") == ["reopen i-1"]
    assert scene.round("sick+busy idle idle") == []
    assert scene.round() == ["drain i-1"]
    assert scene.round("sick+ours+busy idle idle") == ["hold: replace-failed-node"]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_karpenter_2134_a_small_pool_can_repair_one_node(size: int) -> None:
    """20 % of a pool of three is less than one node, so it was never repaired."""
    scene = Scene(SPEC, " ".join(["sick", *["idle"] * (size - 1)]))
    assert [scene.round(), scene.round()] == [[], ["drain i-1"]]


@pytest.mark.parametrize(("failed", "frozen"), [(2, False), (3, True), (10, True)])
def test_karpenter_2811_many_nodes_marked_at_once_are_one_cause(failed: int, frozen: bool) -> None:
    """A component mis-marked nodes and most of the pool was terminated."""
    scene = Scene(replace(SPEC, max_size=40), " ".join(["sick"] * failed + ["idle"] * (10 - failed)))
    scene.round()
    assert (scene.round() == ["hold: correlated-faults"]) is frozen


def test_nvsentinel_pr_1629_one_crash_across_77_nodes_takes_none_of_them_out() -> None:
    scene = Scene(replace(SPEC, max_size=300), " ".join(["sick+busy"] * 77 + ["busy"] * 211))
    assert scene.round() == []
    plan = scene.decide()
    assert plan.is_empty
    assert plan.changes[0].reason.evidence == {"nodes": 77}
    assert [scene.round() for _ in range(3)] == [["hold: correlated-faults"]] * 3


def test_faults_that_come_apart_are_no_burst() -> None:
    scene = Scene(SPEC, "sick+busy idle idle")
    assert [scene.round(), scene.round()] == [[], ["drain i-1"]]
    assert scene.round("sick+ours+busy sick idle", seconds=61) == ["hold: replace-failed-node"]
    assert scene.round() == ["hold: replace-failed-node"] * 2


def test_containers_roadmap_2555_an_agent_that_cannot_be_reached_replaces_nothing() -> None:
    """Healthy nodes were replaced because the health service was unreachable."""
    scene = Scene(SPEC, "silent silent silent")
    assert [scene.round() for _ in range(200)] == [[]] * 200


def test_containers_roadmap_2555_unknown_forbids_scale_in_as_well() -> None:
    busy = Signal("busy", "busy_nodes", down=Bound(1000, per_node=1))
    spec = replace(SPEC, scaling=ScalingPolicy((busy,), stabilization_down=timedelta(0), cooldown_down=timedelta(0)))
    assert Scene(spec, "silent silent silent", {"busy": 0}).round() == ["hold: no-idle-node"]


def test_pulumi_eks_321_an_update_of_the_declaration_does_not_reset_the_size() -> None:
    """Each `pulumi up` put the autoscaled group back to its initial size."""
    scene = Scene(SPEC, "busy " * 9)
    assert scene.round() == []
    scene.spec = replace(scene.spec, max_size=20, desired=3)
    assert [scene.round() for _ in range(3)] == [[]] * 3


def test_kubernetes_54959_a_node_that_boots_is_not_bought_twice() -> None:
    """GPU nodes are ready before they advertise GPUs, and one pod bought several nodes."""
    spec = replace(SPEC, scaling=ScalingPolicy((QUEUE,), cooldown_up=timedelta(0)))
    scene = Scene(spec, "busy busy busy", {"queue": 8})
    assert scene.round() == ["desired 3->4"]
    assert [scene.round(f"busy busy busy {word}") for word in ("pending", "silent", "silent", "idle")] == [[]] * 4


def test_karpenter_4341_a_node_that_has_just_come_is_not_removed_before_its_work_starts() -> None:
    busy = Signal("busy", "busy_nodes", down=Bound(1000, per_node=1))
    spec = replace(SPEC, scaling=ScalingPolicy((QUEUE, busy), cooldown_up=timedelta(0)))
    scene = Scene(spec, "busy busy busy", {"queue": 8, "busy": 3})
    assert scene.round() == ["desired 3->4"]
    scene.signals = {"queue": 0, "busy": 3}
    assert [scene.round("busy busy busy idle") for _ in range(8)] == [["hold: threshold"]] * 8


def test_kubernetes_45509_a_busy_node_is_never_the_one_that_leaves() -> None:
    """Scale-in chose by age and killed whatever ran there."""
    down = Signal("load", "promql", "q", down=Bound(5, nodes=1))
    spec = replace(SPEC, scaling=ScalingPolicy((down,), stabilization_down=timedelta(0), cooldown_down=timedelta(0)))
    assert Scene(spec, "busy busy idle busy", {"load": 1}).round() == ["close i-3"]
