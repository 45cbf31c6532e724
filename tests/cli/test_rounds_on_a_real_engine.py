"""What a round does to AWS and to the stack's state, through the command and the stock engine."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]


def test_a_satisfied_world_gives_an_empty_plan_and_leaves_the_state_untouched(fleet: Any) -> None:
    before = fleet.state()
    done = fleet.reconcile()
    assert "Nothing to do in 1 groups." in done.stdout
    assert fleet.state() == before
    assert fleet.json("status")["actions"] == []


def test_a_signal_past_its_threshold_grows_the_group_in_aws_and_in_the_state_and_plan_alone_changes_nothing(
    fleet: Any,
) -> None:
    fleet.pending = 12

    planned = fleet.json("plan")
    assert [(each["action"], each["desired"]) for each in planned["changes"]] == [("SetDesired", 3)]
    assert fleet.desired() == 1

    fleet.reconcile()
    assert fleet.desired() == 3
    state = next(each for each in fleet.state()["deployment"]["resources"] if each["type"].endswith("AutoScalingGroup"))
    assert state["inputs"]["desired"] == 3

    explained = fleet.json("explain", "train")
    assert explained["actions"][0]["outcome"] == "done"
    assert {"signal": "queue", "value": 12.0, "threshold": 0.0}.items() <= explained["actions"][0]["evidence"].items()

    fleet.pending = 0
    fleet.follow()
    for node in fleet.nodes.values():
        node.busy = True
    fleet.declare({"train": {**load_train(fleet), "max": 6}})
    fleet.pulumi("up", "--yes", "--skip-preview", "--stack", "test")
    assert fleet.desired() == 3, "a person's update of max kept the reconciler's number"
    assert fleet.group()["MaxSize"] == 6


def load_train(fleet: Any) -> dict[str, Any]:
    text = (fleet.project / "Pulumi.test.yaml").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("config: "))
    train: dict[str, Any] = json.loads(line.removeprefix("config: "))["trimtab:groups"]["train"]
    return train


def test_idle_nodes_are_closed_first_and_leave_by_name_in_the_next_round(fleet: Any) -> None:
    fleet.pending = 8
    fleet.reconcile()
    fleet.follow()
    fleet.pending = 0
    idle = next(node for node in fleet.nodes.values())
    idle.busy = False

    fleet.reconcile()
    assert idle.orders[0][0] == "cordon"
    assert idle.orders[0][1]["drain"] is False
    assert fleet.desired() == 2

    fleet.reconcile()
    assert fleet.desired() == 1
    assert idle.instance_id not in fleet.serving()
    assert len(fleet.serving()) == 1


def test_a_node_that_two_witnesses_condemn_is_drained_and_replaced_before_it_leaves(fleet: Any) -> None:
    (broken,) = fleet.nodes.values()
    broken.checks = LOST
    sizes = []
    for _ in range(8):
        fleet.reconcile()
        sizes.append(len(fleet.serving()))
        fleet.follow()
        broken.busy = broken.cordon is None
        if broken.instance_id not in fleet.serving():
            break
    assert broken.instance_id not in fleet.serving()
    assert broken.orders[0][0] == "cordon"
    assert broken.orders[0][1]["drain"] is True
    assert min(sizes) == 1, "the replacement was in service before the broken node left"
    assert fleet.desired() == 1
    words = fleet.trimtab("explain", broken.instance_id)
    assert "Retire" in words.stdout
    assert words.returncode == 0


LOST = [
    {"check": "lost-gpu", "health": "unhealthy", "witness": "nvml", "reason": "GPU 3 is lost", "action": "replace"},
    {"check": "xid", "health": "unhealthy", "witness": "kernel-log", "reason": "Xid 79", "action": "replace"},
]


def test_one_witness_alone_replaces_nothing(fleet: Any) -> None:
    (node,) = fleet.nodes.values()
    node.checks = LOST[:1]
    for _ in range(3):
        fleet.reconcile()
    assert fleet.serving() == {node.instance_id}
    assert node.orders == []


def test_a_silent_agent_is_exit_code_7_and_its_node_is_left_alone_although_the_rest_goes_on(fleet: Any) -> None:
    (node,) = fleet.nodes
    fleet.silence(node)
    fleet.pending = 16
    done = fleet.reconcile(code=7)
    assert node in done.stderr
    assert "next: " in done.stderr
    assert fleet.desired() == 2
    assert node in fleet.serving()


def test_the_loop_acts_within_its_rhythm_survives_bad_rounds_and_ends_at_sigterm_without_leftovers(fleet: Any) -> None:
    process = fleet.start("reconcile", "--every", "1s", "--json")
    lines: list[dict[str, Any]] = []
    reader = threading.Thread(target=lambda: lines.extend(json.loads(line) for line in process.stdout))
    reader.start()
    try:
        fleet.wait_until(lambda: len(lines) > 0)
        program = fleet.project / "__main__.py"
        words = program.read_text(encoding="utf-8")
        program.write_text("raise RuntimeError('a broken program')\n", encoding="utf-8")
        fleet.pending = 8
        fleet.wait_until(lambda: any("a broken program" in each.get("error", "") for each in lines))
        assert fleet.desired() == 1

        program.write_text(words, encoding="utf-8")
        fleet.wait_until(lambda: fleet.desired() == 2)
        status = fleet.trimtab("status", "--json")
        assert json.loads(status.stdout)["last_round"]
    finally:
        process.terminate()
        code = process.wait(timeout=60)
        reader.join()
        process.stdout.close()
    assert code == 0
    assert fleet.session_of(process.pid) == []
