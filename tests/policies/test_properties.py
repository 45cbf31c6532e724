"""Properties of the pack over resources that nobody would write by hand."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pulumi_policy import proxy

from trimtab_policies.adapters import ACCESS, GROUPS, TEMPLATES
from trimtab_policies.catalogue import RULES
from trimtab_policies.documents import DocumentError, Kind, parse
from trimtab_policies.permissions import document
from trimtab_policies.plain import SENTINELS, UNKNOWN, has_unknown, plain
from trimtab_policies.rule import Resource, run
from trimtab_policies.verbs import only_reads

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the first draw builds tables
NAMES = """policy assumeRolePolicy managedPolicyArns tags trimtab:access maxSize instanceType Statement Effect Action
Resource Principal ebs blockDeviceMappings metadataOptions httpTokens role"""
WORDS = st.sampled_from(NAMES.split())
LEAVES = st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.floats() | st.text() | WORDS
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(), inner, max_size=4)
)
WITH_UNKNOWNS = st.recursive(
    LEAVES | st.sampled_from(SENTINELS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
)
OBJECTS = st.dictionaries(WORDS, JSON, max_size=6)
KINDS = st.sampled_from([*ACCESS, *GROUPS, *TEMPLATES])


def same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def has_sentinel(value: Any) -> bool:
    return any(sentinel in json.dumps(value) for sentinel in SENTINELS)


def as_delivered(value: Any) -> Any:
    """What the engine's wire format leaves of a value: every number a float."""
    if isinstance(value, dict):
        return {key: as_delivered(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_delivered(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def whole_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: whole_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [whole_numbers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@CALM
@given(OBJECTS)
def test_plain_gives_back_what_the_sdk_wrapped(props: dict[str, Any]) -> None:
    wrapped = proxy.unknown_checking_proxy(as_delivered(props))
    assert same(plain(wrapped), whole_numbers(props))


@CALM
@given(st.dictionaries(WORDS, WITH_UNKNOWNS, max_size=4))
def test_plain_never_raises_and_marks_exactly_the_unknown(props: dict[str, Any]) -> None:
    assert has_unknown(plain(proxy.unknown_checking_proxy(props))) == has_sentinel(props)


@CALM
@given(st.text(), st.sampled_from(SENTINELS), st.text())
def test_text_with_an_unknown_inside_is_unknown(before: str, sentinel: str, after: str) -> None:
    assert plain(before + sentinel + after) is UNKNOWN


@CALM
@given(KINDS, st.dictionaries(WORDS, JSON, max_size=6))
def test_no_rule_ever_raises(kind: str, props: dict[str, Any]) -> None:
    resource = Resource(kind, "any", f"urn:pulumi:s::p::{kind}::any", plain(props))
    for rule in RULES:
        for finding in run(rule, [resource], {}):
            assert rule.message(finding)


@CALM
@given(st.text() | JSON.map(json.dumps), st.sampled_from(list(Kind)))
def test_reading_a_document_gives_statements_or_says_that_it_cannot(text: str, kind: Kind) -> None:
    try:
        statements = parse(text, kind)
    except DocumentError:
        return
    assert [each.position for each in statements] == list(range(1, len(statements) + 1))


SECRET = "hunter2-correct-horse"
PLACES = st.recursive(
    st.just(SECRET),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.just(SECRET), inner, max_size=3),
)


@CALM
@given(KINDS, st.dictionaries(WORDS, PLACES | PLACES.map(json.dumps), max_size=6))
def test_no_message_holds_a_secret(kind: str, props: dict[str, Any]) -> None:
    resource = Resource(kind, "any", f"urn:pulumi:s::p::{kind}::any", props)
    for rule in RULES:
        assert all(SECRET not in rule.message(finding) for finding in run(rule, [resource], {}))


ACTIONS = st.lists(st.from_regex(r"[a-z0-9]{1,8}:[A-Za-z*?]{1,12}", fullmatch=True), min_size=1, max_size=3)


@CALM
@given(ACTIONS)
def test_what_a_viewer_is_allowed_is_what_reads(actions: list[str]) -> None:
    rule = next(each for each in RULES if each.name == "viewer-may-only-read")
    props = {"policy": document(actions), "tags": {"trimtab:access": "viewer"}}
    resource = Resource("trimtab:aws:Role", "any", "urn:any", props)
    assert bool(run(rule, [resource], {})) == (not all(only_reads(action) for action in actions))


@CALM
@given(ACTIONS, st.booleans())
def test_a_document_is_judged_alike_as_text_and_as_object(actions: list[str], single: bool) -> None:
    statement = {"Effect": "Allow", "Action": actions[0] if single else actions, "Resource": ["*"]}
    body = {"Statement": statement if single else [statement]}
    verdicts = [
        {
            (rule.name, finding)
            for rule in RULES
            for finding in run(rule, [Resource("trimtab:aws:Role", "any", "urn:any", {"policy": form})], {})
        }
        for form in (body, json.dumps(body))
    ]
    assert verdicts[0] == verdicts[1]
