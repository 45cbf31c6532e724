"""What the executor may apply, whose lock it may remove, and how the loop goes on after a bad round."""

from __future__ import annotations

import json
import os
import random
import socket
import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from trimtab.model.errors import AwsError, ExecutionError, PolicyRefusedError, StackError, StackLockedError
from trimtab.model.scaling import GroupSpec
from trimtab_agent.reconciler import engine, executor, locks, retention, rounds, stack_state
from trimtab_agent.reconciler.engine import Run, Step
from trimtab_agent.reconciler.journal import Journal
from trimtab_agent.reconciler.locks import Lock
from trimtab_agent.reconciler.observation import Observation
from trimtab_agent.reconciler.plan import Cordon, Hold, Plan, Reason, Retire, SetDesired
from trimtab_agent.reconciler.sources.aws import SeenGroup, SeenInstance

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
WHY = Reason("threshold", "queue is 12, above 0")
URN = "urn:pulumi:dev::fleet::trimtab:aws:AutoScalingGroup::train"
GROUP = stack_state.GROUP_TYPE
SPECS = {"train": GroupSpec("train", URN, "fleet-dev-train", 1, 6, 1)}


def step(operation="update", urn=URN, kind=GROUP, differing=("desired",)):
    return Step(operation, urn, kind, frozenset(differing))


@pytest.mark.parametrize(
    "ours",
    [
        step(),
        step(differing=("desired", "retire")),
        step("same", differing=()),
        step("refresh", kind="trimtab:aws:Role", urn="urn:x::role"),
        step("read", kind="trimtab:aws:Role", urn="urn:x::role"),
    ],
)
def test_changes_of_desired_and_retire_in_the_plans_groups_are_ours(ours):
    assert executor.foreign([ours], frozenset({URN})) == []


@pytest.mark.parametrize(
    "other",
    [
        step(differing=("desired", "tags")),
        step(differing=("retire[0]",)),
        step(differing=()),
        step("create"),
        step("delete", differing=()),
        step("replace"),
        step("create-replacement"),
        step(urn=URN.replace("train", "serve")),
        step(kind="trimtab:aws:LaunchTemplate"),
        step("some-future-operation", differing=()),
    ],
)
def test_anything_else_in_a_preview_is_foreign_and_named(other):
    (words,) = executor.foreign([step(), other], frozenset({URN}))
    assert other.operation in words
    assert other.type in words


def test_the_plan_file_holds_live_desired_where_a_group_only_retires_and_nothing_of_held_groups():
    changes = (Retire("train", "i-1", False, WHY), Hold("serve", WHY), Cordon("serve", "i-2", True, WHY))
    words = executor.plan_file(Plan(NOW, changes), SPECS, {"train": 4}, 7, "dev")
    retire = [{"instanceId": "i-1", "decrement": False, "reason": WHY.sentence}]
    assert words == {
        "id": NOW.isoformat(),
        "epoch": 7,
        "stack": "dev",
        "groups": {URN: {"desired": 4, "retire": retire}},
    }


def test_verification_compares_each_change_with_aws():
    live = {"train": SeenGroup(3, 1, 6, (SeenInstance("i-1", "InService"), SeenInstance("i-2", "Terminating")))}
    assert executor.unmet(SetDesired("train", 1, 3, WHY), live) is None
    assert "has desired 3, not 4" in executor.unmet(SetDesired("train", 1, 4, WHY), live)
    assert "i-1 is still in service" in executor.unmet(Retire("train", "i-1", True, WHY), live)
    assert executor.unmet(Retire("train", "i-2", True, WHY), live) is None
    assert "is gone" in executor.unmet(SetDesired("train", 1, 3, WHY), {})


def a_lock(pid, host=None, at=None):
    return Lock(host or socket.gethostname(), pid, "ann", at or datetime.now(UTC))


def test_a_lock_is_stale_only_on_proof():
    start = locks.processes.started_at(os.getpid())
    assert not locks.is_stale(a_lock(os.getpid()))
    assert not locks.is_stale(a_lock(2**22 + 1, host="elsewhere"))
    assert locks.is_stale(a_lock(2**22 + 1))
    assert locks.is_stale(a_lock(os.getpid(), at=start - timedelta(hours=1))), "the pid was given to a younger process"


def test_one_living_owner_among_several_keeps_the_stack_locked():
    dead, alive = a_lock(2**22 + 1), a_lock(os.getpid())
    assert executor.require_stale([], "dev") is False
    assert executor.require_stale([dead], "dev") is True
    with pytest.raises(StackLockedError, match=f"ann@.*pid {os.getpid()}"):
        executor.require_stale([dead, alive], "dev")


def test_lock_files_are_those_of_this_projects_stack_and_an_unreadable_one_proves_nothing(tmp_path):
    words = {"hostname": "h", "pid": 7, "username": "ann", "timestamp": NOW.isoformat()}
    for project, stack in (("fleet", "dev"), ("fleet", "prod"), ("another", "dev")):
        folder = tmp_path / ".pulumi" / "locks" / "organization" / project / stack
        folder.mkdir(parents=True)
        (folder / "a.json").write_text(json.dumps({**words, "username": f"{project}-{stack}"}), encoding="utf-8")
    backend = f"file://{tmp_path}?no_tmp_dir=true"
    assert [each.user for each in locks.locks(backend, "fleet", "dev")] == ["fleet-dev"]

    (tmp_path / ".pulumi/locks/organization/fleet/dev/b.json").write_text("{", encoding="utf-8")
    with pytest.raises(StackLockedError, match="unknown host"):
        executor.require_stale(list(locks.locks(backend, "fleet", "dev")), "dev")
    assert list(locks.locks("s3://bucket", "fleet", "dev")) == []


def test_retention_keeps_the_newest_entries_whole_and_touches_no_other_stack(tmp_path):
    history = tmp_path / ".pulumi" / "history" / "fleet"
    for stack in ("dev", "prod"):
        (history / stack).mkdir(parents=True)
        for number in range(5):
            for kind in ("history", "checkpoint"):
                (history / stack / f"{stack}-170000000{number}.{kind}.json").write_text("{}", encoding="utf-8")
    assert retention.prune(f"file://{tmp_path}", "fleet", "dev", 2) == 6
    assert sorted(file.name for file in (history / "dev").iterdir()) == [
        f"dev-170000000{number}.{kind}.json" for number in (3, 4) for kind in ("checkpoint", "history")
    ]
    assert len(list((history / "prod").iterdir())) == 10
    assert retention.prune("s3://bucket", "fleet", "dev", 2) == 0


def test_specs_are_the_stacks_live_groups_and_neither_pending_nor_leaving_ones():
    inputs = {"minSize": 1.0, "maxSize": 6.0, "desired": 2.0, "launchTemplateId": "lt-1"}
    whole = {"type": GROUP, "urn": URN, "id": "fleet-dev-train", "inputs": inputs}
    others = [
        {**whole, "urn": URN.replace("train", "new"), "id": ""},
        {**whole, "urn": URN.replace("train", "old"), "delete": True},
        {**whole, "type": "trimtab:aws:Role"},
    ]
    specs = stack_state.group_specs({"deployment": {"resources": [whole, *others]}})
    assert {name: (spec.group_id, spec.desired) for name, spec in specs.items()} == {"train": ("fleet-dev-train", 2)}
    assert stack_state.group_specs({"deployment": None}) == {}


TRACE = (
    "Traceback (most recent call last):\n  File \"__main__.py\", line 3, in <module>\n    f()\nKeyError: 'imageId'\n"
)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("two\n  lines", "two lines"),
        (f"Program failed:\n{TRACE}", "Program failed: KeyError: 'imageId'"),
        (f"python inline source runtime error: 'imageId'\n{TRACE}", "'imageId'"),
    ],
)
def test_the_engines_words_become_one_sentence_without_a_traceback(words, line):
    assert engine.one_line(words) == line


def test_a_failed_command_is_classified_by_what_its_events_said():
    locked = "error: the stack is currently locked by 1 lock(s)"
    assert isinstance(engine.refusal(Run(violations=["v"]), locked, StackError), PolicyRefusedError)
    assert isinstance(engine.refusal(Run(), locked, StackError), StackLockedError)
    assert "no such bucket" in str(engine.refusal(Run(errors=["no such bucket"]), "code: 255", ExecutionError))
    assert isinstance(engine.refusal(Run(), "error: x", StackError), StackError)


def test_only_mandatory_violations_count_and_each_names_policy_and_resource():
    run = Run()
    for level in ("mandatory", "advisory"):
        policy = SimpleNamespace(
            enforcement_level=level, policy_name=f"{level}-rule", resource_urn=URN, message="too\nbig"
        )
        run.take(SimpleNamespace(resource_pre_event=None, policy_event=policy, diagnostic_event=None))
    assert run.violations == ["mandatory-rule on train: too big"]


def test_the_pause_grows_with_failures_up_to_a_quarter_of_an_hour_and_is_never_below_the_interval():
    chance, every = random.Random(1), timedelta(seconds=30)
    calm = [rounds.pause_after(0, every, chance) for _ in range(50)]
    assert all(timedelta(seconds=27) <= each <= timedelta(seconds=33) for each in calm)
    assert len(set(calm)) > 1
    grown = [rounds.pause_after(failures, timedelta(seconds=1), chance) for failures in range(2, 12)]
    assert grown == sorted(grown)
    assert grown[0] == timedelta(seconds=10)
    assert grown[-1] == timedelta(minutes=15)
    assert rounds.pause_after(2, every, chance) == every


def test_the_loop_outlives_errors_and_defects_and_stops_when_told(tmp_path):
    """The reconciler here is a stand-in whose rounds fail in turn; loop, journal and lease are real."""
    journal, stop = Journal(f"sqlite:///{tmp_path / 'journal.db'}"), threading.Event()
    outcomes = [AwsError("no network"), ZeroDivisionError("a defect"), None]
    told = []

    def once(_lease):
        failure = outcomes.pop(0)
        if failure is not None:
            raise failure
        stop.set()
        return rounds.Round({}, Observation(NOW, {}), None, None, Plan(NOW), {})

    def tell(result):
        told.append(result)
        noted.append(journal.noted("last_error"))

    noted = []
    every = timedelta(milliseconds=1)
    original = rounds.BACKOFF_FIRST
    rounds.BACKOFF_FIRST = every
    try:
        rounds.loop(SimpleNamespace(once=once, journal=journal), every, stop, tell)
    finally:
        rounds.BACKOFF_FIRST = original
    assert [type(each).__name__ for each in told] == ["AwsError", "TrimtabError", "Round"]
    assert noted == ["no network", "unforeseen ZeroDivisionError: a defect", ""]
    assert journal.noted("last_round")
    journal.close()
