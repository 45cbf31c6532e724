"""The pack as the policy SDK and as people see it: wrapping, reference, start-up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pulumi_policy as sdk
import pytest
from pulumi_policy import proxy

from trimtab_policies.catalogue import RULES
from trimtab_policies.pack import policy_of
from trimtab_policies.permissions import document
from trimtab_policies.reference import with_reference

ROOT = Path(__file__).resolve().parents[2]
POLICIES: dict[str, Any] = {rule.name: policy_of(rule) for rule in RULES}
NO_OPTIONS = sdk.PolicyResourceOptions(False, [], None, [], sdk.PolicyCustomTimeouts(0, 0, 0), [])


def judged(name: str, kind: str, props: dict[str, Any], config: dict[str, Any] | None = None) -> list[str]:
    messages: list[str] = []
    arguments = sdk.ResourceValidationArgs(
        kind, proxy.unknown_checking_proxy(props), "urn:one", "one", NO_OPTIONS, None, config
    )
    POLICIES[name].validate(arguments, lambda message, _urn=None: messages.append(message))
    return messages


def test_rules_see_through_the_sdks_proxies() -> None:
    policy = {"Statement": [{"Effect": "Allow", "Action": ["*"], "Resource": ["*"]}]}
    assert judged("no-wildcard-admin", "trimtab:aws:Role", {"policy": policy})


def test_an_unknown_value_is_refused_where_the_sdk_alone_would_only_warn() -> None:
    assert judged("access-document-must-be-known", "trimtab:aws:Role", {"policy": proxy.UNKNOWN_STRING_VALUE})


def test_numbers_from_the_engine_and_from_the_configuration_are_floats() -> None:
    group = {"maxSize": 9.0, "instanceType": "g5.xlarge"}
    (message,) = judged("group-size-ceiling", "trimtab:aws:AutoScalingGroup", group, {"maxNodes": 8.0})
    assert "up to 9 nodes, and the ceiling is 8 a group" in message
    assert judged("group-size-ceiling", "trimtab:aws:AutoScalingGroup", group) == []


def test_stack_rules_report_the_resource_meant() -> None:
    def resource(kind: str, props: dict[str, Any], name: str) -> sdk.PolicyResource:
        return sdk.PolicyResource(
            kind, proxy.unknown_checking_proxy(props), f"urn:{name}", name, NO_OPTIONS, None, None, [], {}
        )

    owner = resource("aws:iam/role:Role", {"tags": {"trimtab:access": "viewer"}}, "viewer")
    policy = resource("aws:iam/rolePolicy:RolePolicy", {"policy": document("ec2:RunInstances")}, "power")
    policy.property_dependencies["role"] = [owner]
    reports: list[tuple[str, str | None]] = []
    POLICIES["attached-policies-keep-the-roles-word"].validate(
        sdk.StackValidationArgs([owner, policy]), lambda message, urn=None: reports.append((message, urn))
    )
    assert [urn for _, urn in reports] == ["urn:power"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_sdk_is_told_level_severity_and_fix(rule: Any) -> None:
    policy = POLICIES[rule.name]
    assert policy.enforcement_level.value == rule.level
    assert policy.severity.value == rule.severity
    assert policy.remediation_steps == rule.fix


def test_the_page_is_what_the_rules_say() -> None:
    page = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    assert page == with_reference(page), "run: python -m trimtab_policies.reference docs/policies.md"


def test_starting_the_pack_imports_nothing_heavy() -> None:
    script = "import sys; before = set(sys.modules); import trimtab_policies.pack; print(*set(sys.modules) - before)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "pulumi_policy" in loaded
    assert not {"boto3", "botocore", "rich", "httpx", "typer", "sqlalchemy", "pynvml", "trimtab.provider"} & set(loaded)


def test_the_entry_point_stays_a_few_lines() -> None:
    assert len((ROOT / "policies" / "__main__.py").read_text(encoding="utf-8").splitlines()) <= 20
