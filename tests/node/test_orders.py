"""Cordon marks: who may set and lift them, and what survives."""

from __future__ import annotations

import json

import pytest

CORDON = {"owner": "us", "epoch": 5, "reason": "a test", "drain": True}


def test_a_mark_is_set_shown_and_lifted(well):
    assert well.post("/v1/cordon", CORDON)[0] == 200
    mark = well.report()["cordon"]
    assert {key: mark[key] for key in CORDON} == CORDON

    assert well.post("/v1/uncordon", {"owner": "us", "epoch": 5})[0] == 200
    assert well.report()["cordon"] is None


@pytest.mark.parametrize("token", [None, "", "wrong", "token-of-the-test "])
def test_orders_need_the_token(well, token):
    assert well.post("/v1/cordon", CORDON, token)[0] == 401
    assert well.report()["cordon"] is None


def test_an_agent_without_a_token_file_takes_no_orders(node):
    node.start()
    node.stop()
    command = [each for each in node.process.args if each not in ("--token-file", str(node.folder / "token"))]
    import subprocess

    node.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    node.url = "http://" + node.process.stdout.readline().removeprefix("serving on ").strip()

    assert node.post("/v1/cordon", CORDON, "None")[0] == 401
    assert node.post("/v1/cordon", CORDON, None)[0] == 401


def test_nvsentinel_1451_a_stale_epoch_neither_sets_nor_lifts(well):
    well.post("/v1/cordon", CORDON)

    assert well.post("/v1/uncordon", {"owner": "us", "epoch": 4})[0] == 409
    assert well.post("/v1/cordon", {**CORDON, "epoch": 4, "reason": "stale"})[0] == 409
    assert well.report()["cordon"]["reason"] == "a test"


def test_a_stale_order_is_refused_even_after_the_mark_is_lifted(well):
    well.post("/v1/cordon", CORDON)
    well.post("/v1/uncordon", {"owner": "us", "epoch": 6})

    assert well.post("/v1/cordon", CORDON)[0] == 409


def test_nvsentinel_1424_nobody_lifts_or_replaces_another_owners_mark(well):
    well.post("/v1/cordon", CORDON)

    assert well.post("/v1/uncordon", {"owner": "them", "epoch": 9})[0] == 409
    assert well.post("/v1/cordon", {**CORDON, "owner": "them", "epoch": 9})[0] == 409
    assert well.report()["cordon"]["owner"] == "us"


def test_a_mark_and_its_epoch_outlive_a_killed_agent(well):
    well.post("/v1/cordon", CORDON)

    well.stop(9)
    well.start()

    assert well.report()["cordon"]["epoch"] == 5
    assert well.post("/v1/uncordon", {"owner": "us", "epoch": 4})[0] == 409


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"null",
        b"\xff\xfe",
        json.dumps({**CORDON, "epoch": "five"}).encode(),
        json.dumps({**CORDON, "epoch": -1}).encode(),
        json.dumps({**CORDON, "owner": ""}).encode(),
        json.dumps({**CORDON, "drain": "yes"}).encode(),
        b"x" * 20_000,
        b"[" * 16_000,
    ],
    ids=lambda body: repr(body[:20]),
)
def test_a_malformed_order_is_refused_and_changes_nothing(well, body):
    status, answer = well.post("/v1/cordon", body)

    assert status == 400
    assert answer["error"]
    assert well.report()["cordon"] is None


def test_unknown_paths_say_what_there_is(well):
    status, answer = well.post("/v1/reboot", {})

    assert status == 404
    assert "/v1/cordon" in answer["error"]
