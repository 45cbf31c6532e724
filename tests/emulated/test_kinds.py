"""Each kind on the real engine: secrets, import, replacement, foreign resources, and runs that died."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
)
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"  # how the engine writes what it does not know yet
ROLE = f"""
from trimtab.resources import Role
role = Role("r", assume_role_policy={TRUST!r}, name=NAME)
"""
FLEET = f"""
import pulumi
from trimtab.resources import AutoScalingGroup, LaunchTemplate, Role
Role("r", assume_role_policy={TRUST!r})
hush = pulumi.Output.secret("hush-hush")
lt = LaunchTemplate("lt", image_id="ami-12c6146b", instance_type="p4d.24xlarge", user_data=hush)
AutoScalingGroup("g", min_size=1, max_size=2, launch_template_id=lt.id, launch_template_version=lt.latest_version,
                 availability_zones=["us-east-1a"], instance_type="p4d.24xlarge")
pulumi.export("version", lt.latest_version)
"""


def program(engine, text):
    (engine.folder / "__main__.py").write_text(text, encoding="utf-8")


def test_secrets_stay_secret_through_update_and_refresh_and_unknowns_are_shown(engine, aws):
    program(engine, FLEET)
    assert "[unknown]" in engine.preview("--diff").stdout + engine.preview("--json").stdout.replace(
        "04da6b54", "[unknown]"
    )
    engine.up()
    refreshed = engine.refresh("--diff")

    state = json.dumps(engine.state())
    versions = aws("ec2").describe_launch_template_versions(LaunchTemplateName="trimtab-test-lt")
    assert "hush-hush" not in state + refreshed.stdout
    assert versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]["UserData"]
    engine.preview("--expect-no-changes")


def test_a_role_is_replaced_on_a_new_name_and_can_be_imported(engine, aws):
    program(engine, ROLE.replace("NAME", "'first'"))
    engine.up()
    program(engine, ROLE.replace("NAME", "'second'"))
    engine.up()
    assert [role["RoleName"] for role in aws("iam").list_roles()["Roles"]] == ["second"]

    aws("iam").create_role(RoleName="elsewhere", AssumeRolePolicyDocument=TRUST)
    engine.run(
        "import", "trimtab:aws:Role", "imported", "elsewhere", "--yes", "--generate-code=false", "--protect=false"
    )
    assert engine.resource("trimtab:aws:Role", "imported")["id"] == "elsewhere"


def test_somebody_elses_role_of_the_same_name_is_left_alone(engine, aws):
    aws("iam").create_role(RoleName="taken", AssumeRolePolicyDocument=TRUST, Description="theirs")
    program(engine, ROLE.replace("NAME", "'taken'"))

    refused = engine.up(check=False)

    assert refused.returncode != 0
    assert "exists and is not ours" in refused.stdout
    assert aws("iam").get_role(RoleName="taken")["Role"]["Description"] == "theirs"


def children_of(session):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[-1].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(folder.name))
    return found


def test_what_a_killed_run_made_is_adopted_by_the_next_and_nothing_is_made_twice(engine, aws):
    """Kill -9 of the engine as soon as AWS has the group: its state was not written yet, or only just."""
    program(engine, FLEET)
    command = [str(Path(os.sys.executable).parent / "pulumi"), "up", "--yes", "--skip-preview", "--stack", "test"]
    process = subprocess.Popen(
        command,
        cwd=engine.folder,
        env=engine.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not aws("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"] and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()

    deadline = time.monotonic() + 10
    while children_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert children_of(process.pid) == [], "plugins outlive a dead engine"

    engine.run("cancel", "--yes", "--stack", "test")
    engine.up()

    assert len(aws("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]) == 1
    assert len(aws("ec2").describe_launch_templates()["LaunchTemplates"]) == 1
    assert len(aws("iam").list_roles()["Roles"]) == 1
    assert engine.resource("trimtab:aws:AutoScalingGroup", "g")["id"] == "trimtab-test-g"
    assert len(aws("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"][0]["Instances"]) == 1


def test_an_adopted_role_loses_what_the_program_no_longer_grants(engine, aws):
    """A killed run left a role with more rights than the program has now."""
    owner = {"Key": "trimtab:owner", "Value": "trimtab/test/trimtab:aws:Role/r"}
    iam = aws("iam")
    iam.create_role(RoleName="half", AssumeRolePolicyDocument=TRUST, Tags=[owner, {"Key": "old", "Value": "1"}])
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    iam.put_role_policy(RoleName="half", PolicyName="trimtab", PolicyDocument=json.dumps(everything))
    arn = iam.create_policy(PolicyName="extra", PolicyDocument=json.dumps(everything))["Policy"]["Arn"]
    iam.attach_role_policy(RoleName="half", PolicyArn=arn)
    program(engine, ROLE.replace("NAME", "'half'"))

    engine.up()

    assert iam.list_role_policies(RoleName="half")["PolicyNames"] == []
    assert iam.list_attached_role_policies(RoleName="half")["AttachedPolicies"] == []
    assert [tag["Key"] for tag in iam.list_role_tags(RoleName="half")["Tags"]] == ["trimtab:owner"]
