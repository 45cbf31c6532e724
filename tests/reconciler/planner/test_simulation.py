"""The real planner, its checks and its memory in a seeded world of faults, lost metrics, crashes and other people."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from trimtab.model.scaling import Bound, GroupSpec, RepairPolicy, ScalingPolicy, Signal
from trimtab_agent.reconciler.plan import REPLACE_RULE, Hold
from trimtab_agent.simulation.world import CALM, WILD, Chances, World

SIGNALS = (
    Signal("queue", "pending_gpus", up=Bound(0, per_node=8)),
    Signal("busy", "busy_nodes", down=Bound(1000, per_node=1)),
)
MINUTE = timedelta(minutes=1)
POLICY = ScalingPolicy(SIGNALS, stabilization_down=5 * MINUTE, cooldown_down=MINUTE)
SPEC = GroupSpec("train", "urn:1", "asg-1", 2, 10, 2, scaling=POLICY, repair=RepairPolicy(drain_deadline=5 * MINUTE))


def run(world: World, steps: int) -> None:
    for number in range(steps):
        plan, violations = world.step()
        assert not violations, f"step {number}: {violations} in {plan.changes}"


@pytest.mark.parametrize("seed", range(20))
def test_500_steps_with_every_fault_break_no_invariant_and_the_fleet_settles_after_them(seed: int) -> None:
    world = World(SPEC, seed, WILD)
    run(world, 500)
    for retire, node in world.retired:
        assert retire.reason.rule == REPLACE_RULE or node.job_ends is None, f"{node} had a job"
        assert node.impaired or retire.reason.rule != REPLACE_RULE or len(node.sick) == 2
        assert node.impaired or node.mark is None or node.mark.owner != "operator"

    world.chances, world.orders, world.pending = CALM, type(world.orders)(), 0
    for node in world.nodes.values():
        node.sick, node.silent_until, node.impaired, node.mark = frozenset(), None, False, None
    run(world, 200)
    plan, _ = world.step()
    assert plan.is_empty, plan.changes
    assert world.desired == len(world.serving) == world.spec.min_size


def test_the_same_seed_gives_the_same_500_plans() -> None:
    first, second = World(SPEC, 7, WILD), World(SPEC, 7, WILD)
    assert [first.step() for _ in range(500)] == [second.step() for _ in range(500)]


def test_a_broken_node_is_replaced_before_it_leaves_and_the_size_is_the_old_one_again() -> None:
    world = World(SPEC, 1, CALM)
    run(world, 5)
    world.nodes["i-0001"].sick = World(SPEC, 1).nodes["i-0001"].sick | {"nvml", "kernel-log"}  # type: ignore[arg-type]  # the enums are strings
    most = 0
    for _ in range(20):
        run(world, 1)
        most = max(most, world.desired)
    assert "i-0001" not in world.nodes
    assert (most, world.desired, len(world.serving)) == (3, 2, 2)
    assert [retire.instance_id for retire, _ in world.retired] == ["i-0001"]


def test_an_update_that_was_killed_after_it_went_through_is_not_done_twice() -> None:
    world = World(SPEC, 1, Chances(job=0.0, crash=1.0))
    run(world, 5)
    world.nodes["i-0001"].impaired = True
    sizes = set()
    for _ in range(30):
        run(world, 1)
        sizes.add(world.desired)
    assert sizes == {2, 3}
    assert len(world.retired) == 1
    assert world.desired == 2


def test_a_replacement_whose_node_came_back_is_given_back() -> None:
    world = World(SPEC, 1, CALM, boot=timedelta(minutes=30))
    world.now += timedelta(minutes=40)
    run(world, 1)
    world.nodes["i-0001"].sick = frozenset(world.nodes["i-0001"].sick | {"nvml", "kernel-log"})  # type: ignore[arg-type]  # the enums are strings
    run(world, 4)
    assert world.desired == 3
    world.nodes["i-0001"].sick = frozenset()
    run(world, 40)
    assert world.desired == 2
    assert "i-0001" not in {retire.instance_id for retire, _ in world.retired if retire.reason.rule == REPLACE_RULE}


def test_a_persons_change_of_size_is_said_once_and_kept_through_the_cooldown() -> None:
    spec = replace(SPEC, scaling=replace(POLICY, cooldown_down=30 * MINUTE))
    world = World(spec, 1, CALM)
    run(world, 20)
    world.desired = 5
    plan, _ = world.step()
    said = [each.reason for each in plan.changes if isinstance(each, Hold) and each.reason.rule == "third-writer"]
    assert len(said) == 1
    assert "from 2 to 5" in said[0].sentence
    run(world, 40)
    assert world.desired == 5
