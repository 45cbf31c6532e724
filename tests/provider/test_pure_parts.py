"""The provider without engine and AWS: codec, capacity, plan files, schema."""

from __future__ import annotations

import base64
import inspect
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulumi.runtime.proto import provider_pb2

from trimtab import resources
from trimtab.model.errors import DeclarationError
from trimtab.model.names import Urn
from trimtab.model.scaling import CapacityOwner, Pin
from trimtab.provider import codec, declaration, plan_file
from trimtab.provider.capacity import Claim, decide
from trimtab.provider.kinds import KINDS, launch_template
from trimtab.provider.kinds.kind import named
from trimtab.provider.kinds.role import canonical
from trimtab.provider.servicer import differences

NOW = datetime(2030, 1, 1, tzinfo=UTC)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10) | st.just(codec.UNKNOWN),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
values = plain | plain.map(codec.Secret)
sizes = st.integers(0, 50)


@given(st.dictionaries(st.text(max_size=8), values, max_size=5))
def test_what_is_encoded_decodes_to_itself(mapping):
    assert codec.decode(codec.encode(mapping)) == mapping


def test_a_secret_never_shows_itself():
    assert "s3cr3t" not in repr({"token": codec.Secret("s3cr3t")})
    assert codec.mark_like({"a": 1, "b": 2}, {"a": {"deep": [codec.Secret(0)]}}) == {"a": codec.Secret(1), "b": 2}


@st.composite
def claims(draw):
    low = draw(sizes)
    high = draw(st.integers(low, 60))
    maybe = st.none() | sizes
    pin = draw(
        st.none() | st.builds(Pin, sizes, st.just(NOW + timedelta(hours=draw(st.integers(-1, 1)))), st.just("r"))
    )
    order = draw(st.none() | st.builds(plan_file.Order, sizes, st.just(())))
    return Claim(draw(st.sampled_from(CapacityOwner)), low, high, draw(maybe), draw(maybe), pin, order)


@given(claims())
def test_desired_always_lies_within_its_bounds_and_a_change_is_said(claim):
    decision = decide(claim, NOW)

    assert claim.low <= decision.desired <= claim.high
    if claim.order and claim.low <= claim.order.desired <= claim.high:
        assert (decision.desired, decision.remark) == (claim.order.desired, None)


@given(claims(), st.integers(0, 5))
def test_a_wider_bound_never_moves_a_number_that_was_inside(claim, wider):
    before = decide(claim, NOW)
    if before.remark is None:
        after = decide(
            Claim(claim.owner, claim.low, claim.high + wider, claim.declared, claim.last, claim.pin, claim.order), NOW
        )
        assert after.desired == before.desired


def test_the_last_number_stays_unless_code_owns_it():
    assert decide(Claim(CapacityOwner.RECONCILER, 1, 9, declared=2, last=7), NOW).desired == 7
    assert decide(Claim(CapacityOwner.CODE, 1, 9, declared=2, last=7), NOW).desired == 2
    assert decide(Claim(CapacityOwner.RECONCILER, 1, 9), NOW).desired == 1


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("no", "plan"),
        ("[]", "plan"),
        ('{"groups": 3}', "plan.groups"),
        ('{"groups": {"u": {"desired": -1}}}', "plan.groups[u].desired"),
        ('{"groups": {"u": {"desired": 1, "retire": [{"instanceId": "i"}]}}}', "plan.groups[u].retire[0].reason"),
        ('{"groups": {"u": {"desired": 1, "extra": 2}}}', "plan.groups[u].extra"),
    ],
)
def test_a_bad_plan_names_what_is_wrong(text, path):
    with pytest.raises(DeclarationError) as caught:
        plan_file.parse(text)

    assert caught.value.path == path


@pytest.mark.parametrize(
    ("inputs", "property_name"),
    [
        ({}, "assumeRolePolicy"),
        ({"assumeRolePolicy": 3}, "assumeRolePolicy"),
        ({"assumeRolePolicy": "{}", "polcy": "{}"}, "polcy"),
        ({"assumeRolePolicy": "{}", "tags": {"a": 1}}, "tags"),
        ({"assumeRolePolicy": "{}", "managedPolicyArns": "arn"}, "managedPolicyArns"),
        ({"assumeRolePolicy": "{}", "maxSessionSeconds": True}, "maxSessionSeconds"),
    ],
)
def test_inputs_that_do_not_fit_the_schema_name_their_property(inputs, property_name):
    failures = list(declaration.failures("trimtab:aws:Role", inputs))

    assert [each.property for each in failures] == [property_name]


def test_unknown_values_fit_everywhere():
    inputs = {"assumeRolePolicy": codec.UNKNOWN, "tags": {"a": codec.UNKNOWN}, "maxSessionSeconds": codec.UNKNOWN}

    assert list(declaration.failures("trimtab:aws:Role", inputs)) == []


def test_differences_respect_ignored_properties_and_replacement():
    old, new = {"name": "a", "x": 1, "gone": 2}, {"name": "b", "x": codec.UNKNOWN, "fresh": 3}

    found = differences(old, new, frozenset({"name"}), frozenset({"gone"}))

    kinds = provider_pb2.PropertyDiff
    assert found == {"name": kinds.UPDATE_REPLACE, "x": kinds.UPDATE, "fresh": kinds.ADD}
    assert differences(old, {}, frozenset(), frozenset()) == dict.fromkeys(old, kinds.DELETE)
    assert differences(old, old, frozenset({"name"}), frozenset()) == {}


def test_unknown_to_unknown_and_clear_to_secret_are_differences():
    unknown = {"x": codec.UNKNOWN}

    assert set(differences(unknown, unknown, frozenset(), frozenset())) == {"x"}
    assert set(differences({"x": 1}, {"x": codec.Secret(1)}, frozenset(), frozenset())) == {"x"}


def test_an_unknown_name_stays_unknown_and_is_not_replaced_by_an_old_one():
    urn = Urn.parse("urn:pulumi:s::p::trimtab:aws:Role::r")

    assert named({"name": "old"}, {"name": codec.UNKNOWN}, urn)["name"] is codec.UNKNOWN
    assert named({"name": "old"}, {}, urn)["name"] == "old"
    assert named({}, {}, urn)["name"] == "p-s-r"


def test_a_secret_output_value_decodes_to_a_secret_and_an_unset_one_to_unknown():
    output = {codec.SIGNATURE: codec.OUTPUT, "value": "v", "secret": True}

    assert codec.decode(codec.encode({"a": output}))["a"] == codec.Secret("v")
    assert codec.decode(codec.encode({"a": {codec.SIGNATURE: codec.OUTPUT}}))["a"] is codec.UNKNOWN


def test_whole_numbers_come_back_as_whole_numbers():
    decoded = codec.decode(codec.encode({"n": 3, "x": 1.5}))

    assert [type(each) for each in decoded.values()] == [int, float]


def test_a_pin_beats_the_owner_until_it_expires():
    def claim(hours: int) -> Claim:
        return Claim(CapacityOwner.RECONCILER, 1, 9, last=3, pin=Pin(7, NOW + timedelta(hours=hours), "r"))

    assert decide(claim(1), NOW).desired == 7
    assert decide(claim(0), NOW).desired == 3
    assert decide(claim(-1), NOW).desired == 3


def test_a_near_miss_of_a_property_is_suggested():
    [failure] = declaration.failures("trimtab:aws:Role", {"assumeRolePolicy": "{}", "polcy": "{}"})

    assert "did you mean 'policy'" in failure.reason


def test_a_plan_that_is_not_text_is_refused(tmp_path, monkeypatch):
    (tmp_path / "plan.json").write_bytes(b"\xff\xfe\x00")
    monkeypatch.setenv(plan_file.VARIABLE, str(tmp_path / "plan.json"))

    with pytest.raises(DeclarationError, match="not UTF-8"):
        plan_file.order_for("urn")


def test_user_data_that_is_no_text_is_kept_as_it_travels():
    encoded = base64.b64encode(b"\x1f\x8b\x08\x00\xff").decode()
    declared = {"imageId": "a", "instanceType": "t", "userDataBase64": encoded, **launch_template.DEFAULTS}

    made = launch_template.template_data(declared, "owner")

    assert launch_template.declared(made)["userDataBase64"] == encoded
    with pytest.raises(DeclarationError, match="not both"):
        launch_template.check({}, {"userData": "a", "userDataBase64": "b"}, Urn.parse("urn:pulumi:s::p::t::n"))


def test_white_space_in_a_policy_is_no_difference():
    assert canonical('{ "b": 1,\n "a": 2 }') == canonical('{"a":2,"b":1}')
    assert canonical("not json") == "not json"


def test_schema_kinds_and_classes_are_one_set():
    schema = json.loads(declaration.schema_text())
    classes = {
        f"trimtab:aws:{name}": kind
        for name, kind in vars(resources).items()
        if getattr(kind, "__module__", "") == resources.__name__
    }

    assert set(schema["resources"]) == set(KINDS) == set(classes)


@pytest.mark.parametrize("token", sorted(KINDS))
def test_each_class_takes_each_declared_property_and_each_is_described(token):
    schema = declaration.resource_schema(token)
    parameters = set(inspect.signature(getattr(resources, token.rsplit(":", 1)[-1]).__init__).parameters)
    snake = {
        "".join(f"_{char.lower()}" if char.isupper() else char for char in key): key
        for key in schema["inputProperties"]
    }

    assert set(snake) - {"retire"} <= parameters
    assert all(each.get("description") for each in schema["inputProperties"].values())
    assert all(each.get("description") for each in schema["properties"].values())


def test_a_urn_gives_name_and_owner_and_nonsense_is_refused():
    urn = Urn.parse("urn:pulumi:dev::proj::trimtab:index:ScalingGroup$trimtab:aws:AutoScalingGroup::train")

    assert (urn.type, urn.default_name) == ("trimtab:aws:AutoScalingGroup", "proj-dev-train")
    assert len(Urn.parse(f"urn:pulumi:s::p::t::{'n' * 400}").owner) <= 256
    with pytest.raises(ValueError, match="not a Pulumi URN"):
        Urn.parse("train")


def test_the_plugin_starts_without_the_sdk():
    code = (
        "import sys; from trimtab.provider.protocol import without_sdk; without_sdk(); "
        "import trimtab.provider.servicer; print('pulumi.resource' in sys.modules, 'boto3' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.split() == ["False", "False"]


def test_the_page_about_the_provider_names_each_kind_and_property():
    page = (Path(__file__).resolve().parents[2] / "docs" / "provider.md").read_text(encoding="utf-8")

    for token in KINDS:
        section = page.split(f"### `{token}`", 1)[1].split("###", 1)[0]
        schema = declaration.resource_schema(token)
        assert all(f"| `{key}` |" in section for key in schema["inputProperties"])
        assert all(f"`{key}`" in section for key in schema["properties"])
