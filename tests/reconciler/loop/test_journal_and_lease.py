"""The journal: what survives, who may act, and what a damaged one says."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from trimtab.model.errors import LeaseHeldError, SettingsError
from trimtab_agent.reconciler import journal as module
from trimtab_agent.reconciler.history import GroupHistory, History
from trimtab_agent.reconciler.journal import LEASE_SECONDS, Journal
from trimtab_agent.reconciler.plan import Reason, Retire, SetDesired

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
GROW = SetDesired("train", 1, 3, Reason("threshold", "queue is 12, above 0", {"value": 12.0}))
DROP = Retire("serve", "i-1", True, Reason("idle", "i-1 is idle"))


@pytest.fixture
def journal(tmp_path):
    opened = Journal(f"sqlite:///{tmp_path / 'state' / 'journal.db'}")
    yield opened
    opened.close()


def held_by(journal, holder, epoch, expires):
    with journal._begin() as connection:
        connection.execute(update(module._lease).values(holder=holder, epoch=epoch, expires=expires.timestamp()))


def test_an_intent_without_an_outcome_is_closed_as_interrupted_exactly_once(journal):
    journal.intend("round-1", (GROW, DROP), NOW)
    closed = journal.interrupted(NOW + timedelta(seconds=5))
    assert [(each.kind, each.group) for each in closed] == [("SetDesired", "train"), ("Retire", "serve")]
    assert journal.interrupted(NOW) == []
    assert {each.outcome for each in journal.entries()} == {"interrupted"}


def test_an_intent_written_before_kill_9_is_there_for_the_next_run(tmp_path):
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    program = (
        "import os, signal, sys\n"
        "from datetime import UTC, datetime\n"
        "from trimtab_agent.reconciler.journal import Journal\n"
        "from trimtab_agent.reconciler.plan import Reason, SetDesired\n"
        "change = SetDesired('train', 1, 3, Reason('threshold', 'queue is 12', {}))\n"
        "Journal(sys.argv[1]).intend('round-1', (change,), datetime.now(UTC))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, url], check=False)
    assert killed.returncode == -signal.SIGKILL
    opened = Journal(url)
    assert [each.desired for each in opened.interrupted(NOW)] == [3]
    opened.close()


def test_a_conclusion_touches_only_its_own_round(journal):
    journal.intend("round-1", (GROW,), NOW)
    journal.intend("round-2", (DROP,), NOW)
    journal.conclude("round-1", "done", NOW + timedelta(seconds=2))
    assert {each.round: each.outcome for each in journal.entries()} == {"round-1": "done", "round-2": None}


def test_entries_are_found_by_group_and_by_instance_newest_first(journal):
    journal.intend("round-1", (GROW, DROP), NOW)
    journal.intend("round-2", (DROP,), NOW)
    assert [each.round for each in journal.entries("i-1")] == ["round-2", "round-1"]
    assert [each.kind for each in journal.entries("train")] == ["SetDesired"]
    assert journal.entries("train")[0].evidence == {"value": 12.0}
    assert len(journal.entries(limit=1)) == 1


def test_history_comes_back_as_it_was_stored(journal):
    memory = History({"train": GroupHistory(last_up=NOW, wants=((NOW, 3),), past={"queue:up": NOW}, desired=3)})
    assert journal.history() == History()
    journal.save_history(memory)
    assert journal.history() == memory


def test_a_pin_ends_by_itself_and_a_pause_stays(journal):
    journal.give_order("pin", "train", "big run", 3, NOW + timedelta(hours=1))
    journal.give_order("pause", "*", "network work")
    assert journal.orders(NOW).pins["train"].value == 3
    later = journal.orders(NOW + timedelta(hours=1))
    assert later.pins == {}
    assert later.pause_of("train") == "network work"


def test_a_second_order_replaces_the_first_and_lifting_says_whether_there_was_one(journal):
    for value in (3, 5):
        journal.give_order("pin", "train", "big run", value, NOW + timedelta(hours=1))
    assert journal.orders(NOW).pins["train"].value == 5
    assert journal.lift_order("pin", "train") is True
    assert journal.lift_order("pin", "train") is False


def test_the_epoch_grows_with_each_holder_and_stays_with_the_same_one(journal):
    first = journal.acquire(NOW)
    assert journal.acquire(NOW + timedelta(seconds=1)).epoch == first.epoch
    held_by(journal, "elsewhere/7/7", first.epoch + 1, NOW)
    assert journal.acquire(NOW + timedelta(seconds=1)).epoch == first.epoch + 2


def test_a_lease_on_another_host_is_respected_until_it_runs_out(journal):
    held_by(journal, "elsewhere/7/7", 4, NOW + timedelta(seconds=LEASE_SECONDS))
    with pytest.raises(LeaseHeldError, match="elsewhere/7/7 reconciles this stack"):
        journal.acquire(NOW)
    assert journal.acquire(NOW + timedelta(seconds=LEASE_SECONDS)).epoch == 5


def test_a_lease_of_a_dead_process_on_this_host_is_free_at_once_and_of_a_living_one_is_not(journal):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        name = module.processes.myself().split("/")[0]
        holder = f"{name}/{child.pid}/{module.processes.start_ticks(child.pid)}"
        held_by(journal, holder, 1, NOW + timedelta(seconds=30))
        with pytest.raises(LeaseHeldError):
            journal.acquire(NOW)
    finally:
        child.communicate(b"\n")
    assert journal.acquire(NOW).epoch == 2


def test_a_holder_who_was_overtaken_may_not_act_even_when_the_other_has_left_again(journal):
    lease = journal.acquire(datetime.now(UTC))
    lease.require()
    held_by(journal, "elsewhere/7/7", lease.epoch + 1, NOW + timedelta(days=3650))
    with pytest.raises(LeaseHeldError, match="took over"):
        lease.require()
    held_by(journal, "elsewhere/7/7", lease.epoch + 1, datetime.now(UTC) - timedelta(seconds=1))
    with pytest.raises(LeaseHeldError, match="took over"):
        lease.require()


def test_of_two_that_take_the_lease_in_the_same_moment_one_wins(tmp_path):
    program = (
        "import sys\n"
        "from datetime import UTC, datetime\n"
        "from trimtab.model.errors import LeaseHeldError\n"
        "from trimtab_agent.reconciler.journal import Journal\n"
        "journal = Journal(sys.argv[1])\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "try:\n"
        "    print(journal.acquire(datetime.now(UTC)).epoch, flush=True)\n"
        "except LeaseHeldError:\n"
        "    print('held', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    with ExitStack() as stack:
        start = [sys.executable, "-c", program, url]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        rivals = [stack.enter_context(subprocess.Popen(start, **pipes)) for _ in range(3)]
        assert [each.stdout.readline().strip() for each in rivals] == ["ready"] * 3
        for each in rivals:
            each.stdin.write("\n")
        answers = sorted(each.stdout.readline().strip() for each in rivals)
        for each in rivals:
            each.communicate("\n")
    assert answers == ["1", "held", "held"]


def test_release_lets_the_next_one_in_at_once(journal):
    lease = journal.acquire(datetime.now(UTC))
    lease.release()
    with journal._begin() as connection:
        row = connection.execute(module.select(module._lease)).one()
    assert (row.epoch, row.expires) == (lease.epoch, 0.0)


def test_a_journal_of_another_schema_is_refused(tmp_path):
    path = tmp_path / "journal.db"
    Journal(f"sqlite:///{path}").close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    connection.close()
    with pytest.raises(SettingsError, match="schema 99"):
        Journal(f"sqlite:///{path}")


@pytest.mark.parametrize("content", [b"this is no database, and quite long enough to be looked at" * 20])
def test_a_damaged_journal_is_named_with_a_way_out(tmp_path, content):
    path = tmp_path / "journal.db"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match="cannot be used") as caught:
        Journal(f"sqlite:///{path}")
    assert str(path) in str(caught.value)
    assert "moved away" in caught.value.hint


def test_a_journal_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="cannot be used"):
        Journal(f"sqlite:///{tmp_path / 'file' / 'journal.db'}")


def test_unreadable_history_is_said_and_not_taken_for_an_empty_one(journal):
    journal._put("history", '{"groups": 3}')
    with pytest.raises(SettingsError, match="no readable history"):
        journal.history()


@pytest.mark.parametrize("url", ["postgresql+nodriver://ann:hunter2@db/x", "not a url: hunter2"])
def test_a_wrong_database_url_is_refused_without_showing_its_password(url):
    with pytest.raises(SettingsError) as caught:
        Journal(url)
    assert "hunter2" not in str(caught.value)


def test_readers_are_served_while_a_writer_writes(journal):
    with journal._begin() as connection:
        connection.execute(update(module._lease).values(epoch=9))
        read: list[int] = []
        reader = threading.Thread(target=lambda: read.append(len(journal.entries())))
        reader.start()
        reader.join(timeout=3)
    assert read == [0]
