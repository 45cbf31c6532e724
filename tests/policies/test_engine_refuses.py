"""The pack in the real engine: at preview, at update, and offline on exported state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest

pytestmark = pytest.mark.engine
PACK = ("--policy-pack", str(Path(__file__).resolve().parents[2] / "policies"))
WORKING = """
import pulumi
from trimtab.resources import AutoScalingGroup, LaunchTemplate, Role
"""
VIEWER_WHO_SCALES = """
from trimtab.model.access import trust_document
from trimtab_policies.permissions import document
trust = trust_document(["arn:aws:iam::123456789012:root"])
policy = document("autoscaling:SetDesiredCapacity")
Role("seen", assume_role_policy=trust, policy=policy, tags={"trimtab:access": "viewer"})
"""
UNKNOWN_DOCUMENT = """
from trimtab.model.access import service_trust
from trimtab_policies.permissions import document
first = Role("first", assume_role_policy=service_trust("ec2.amazonaws.com"))
policy = first.arn.apply(lambda arn: document("sts:AssumeRole", arn))
Role("second", assume_role_policy=service_trust("ec2.amazonaws.com"), policy=policy)
"""
TWO_GROUPS = """
for name, declared, actual in (("honest", "p4d.24xlarge", "p4d.24xlarge"), ("sly", "g5.xlarge", "p4d.24xlarge")):
    template = LaunchTemplate(name, image_id="ami-12c6146b", instance_type=actual)
    AutoScalingGroup(
        name,
        min_size=0,
        max_size=8,
        instance_type=declared,
        launch_template_id=template.id,
        launch_template_version=template.latest_version,
        availability_zones=["us-east-1a"],
    )
"""


def write(engine: Any, program: str) -> None:
    (engine.folder / "__main__.py").write_text(WORKING + program, encoding="utf-8")


def configure(engine: Any, config: dict[str, Any]) -> tuple[str, ...]:
    path = engine.folder / "limits.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return (*PACK, "--policy-pack-config", str(path))


def roles_in_aws(url: str) -> list[str]:
    client = boto3.client(
        "iam", endpoint_url=url, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    return [role["RoleName"] for role in client.list_roles()["Roles"]]


def test_the_root_project_passes_and_its_exported_state_too(root_project: Any) -> None:
    root_project.preview(*PACK)
    root_project.up(*PACK)
    (root_project.folder / "state.json").write_text(json.dumps(root_project.state()), encoding="utf-8")
    root_project.run("policy", "analyze", *PACK, "--file", "state.json")


def test_a_false_viewer_is_refused_at_preview_and_at_update_and_never_reaches_aws(
    engine: Any, moto_server: str
) -> None:
    write(engine, VIEWER_WHO_SCALES)
    for refused in (engine.preview(*PACK, check=False), engine.up(*PACK, check=False)):
        assert refused.returncode != 0
        assert "viewer-may-only-read" in refused.stdout
        assert "autoscaling:SetDesiredCapacity" in refused.stdout
    assert roles_in_aws(moto_server) == []


def test_a_document_that_the_preview_cannot_see_is_refused(engine: Any) -> None:
    write(engine, UNKNOWN_DOCUMENT)
    refused = engine.preview(*PACK, check=False)
    assert refused.returncode != 0
    assert "access-document-must-be-known" in refused.stdout


def test_ceilings_come_from_the_configuration_and_templates_are_seen_before_they_exist(engine: Any) -> None:
    write(engine, TWO_GROUPS)
    limits = {"group-price-ceiling": {"maxUsdPerHour": 100}, "stack-gpu-ceiling": {"maxGpus": 70}}
    refused = engine.preview(*configure(engine, limits), check=False)
    assert refused.returncode != 0
    assert "up to 262.18 USD an hour at 8 nodes, and the ceiling is 100.00 a group" in refused.stdout
    assert "up to 72 GPUs, and the ceiling is 70" in refused.stdout
    assert "instance-type-must-match-template" in refused.stdout


def test_a_limit_of_the_wrong_type_is_one_clear_error(engine: Any) -> None:
    write(engine, TWO_GROUPS)
    refused = engine.preview(*configure(engine, {"group-size-ceiling": {"maxNodes": "many"}}), check=False)
    assert refused.returncode != 0
    assert "group-size-ceiling: maxNodes: Invalid type. Expected: number, given: string" in refused.stdout
    assert "Traceback" not in refused.stdout + refused.stderr


def test_a_misspelled_limit_is_refused_rather_than_replaced_by_the_default(engine: Any) -> None:
    write(engine, "")
    limits = {"group-size-ceiling": {"maxNode": 2}, "stack-gpu-ceiling": {"maxGPUs": 8}}
    refused = engine.preview(*configure(engine, limits), check=False)
    assert refused.returncode != 0
    assert "maxNode is no option of group-size-ceiling" in refused.stdout
    assert "maxGPUs is no option of stack-gpu-ceiling" in refused.stdout


def test_exported_state_is_judged_offline_without_program_or_provider(engine: Any) -> None:
    write(engine, VIEWER_WHO_SCALES)
    engine.up()
    (engine.folder / "state.json").write_text(json.dumps(engine.state()), encoding="utf-8")
    refused = engine.run("policy", "analyze", *PACK, "--file", "state.json", "--json", check=False)
    events = [json.loads(line) for line in refused.stdout.splitlines()]
    refusals = [each["policyEvent"]["policyName"] for each in events if "policyEvent" in each]
    assert refused.returncode == 1
    assert refusals == ["viewer-may-only-read"]
