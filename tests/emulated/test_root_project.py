"""The root project through the stock command line: what a person does by hand."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.engine
GROUP = "trimtab:aws:AutoScalingGroup"


def group_in_aws(aws, name):
    found = aws("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[f"trimtab-test-{name}"])
    return found["AutoScalingGroups"][0]


def order(project, tmp_path, name, **order):
    urn = project.resource(GROUP, name)["urn"]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"id": "1", "epoch": 1, "stack": "test", "groups": {urn: order}}), encoding="utf-8")
    return {"TRIMTAB_PLAN_FILE": str(path)}


def test_a_stack_lives_its_whole_life(root_project, aws, tmp_path):
    root_project.up()
    group = group_in_aws(aws, "train")
    assert (group["MinSize"], group["DesiredCapacity"], group["MaxSize"]) == (1, 1, 6)
    assert group["NewInstancesProtectedFromScaleIn"] is True
    root_project.preview("--expect-no-changes")

    # the reconciler's plan moves desired, and it stays without the plan
    root_project.up(env=order(root_project, tmp_path, "train", desired=4, retire=[]))
    assert group_in_aws(aws, "train")["DesiredCapacity"] == 4
    root_project.preview("--expect-no-changes")

    # a person raises max: only that changes
    config = root_project.folder / "Pulumi.test.yaml"
    config.write_text(config.read_text().replace("max: 6", "max: 9"), encoding="utf-8")
    shown = root_project.preview("--diff").stdout
    assert "maxSize" in shown
    assert "desired" not in shown
    root_project.up()
    group = group_in_aws(aws, "train")
    assert (group["DesiredCapacity"], group["MaxSize"]) == (4, 9)

    # somebody changes desired in the console: it is seen, named and adopted
    aws("autoscaling").set_desired_capacity(AutoScalingGroupName="trimtab-test-train", DesiredCapacity=5)
    assert "desired" in root_project.preview("--diff").stdout
    root_project.up()
    assert group_in_aws(aws, "train")["DesiredCapacity"] == 5
    assert root_project.resource(GROUP, "train")["inputs"]["desired"] == 5

    # a named instance leaves with the capacity, and then leaves the list
    victim = group_in_aws(aws, "train")["Instances"][1]["InstanceId"]
    leaving = [{"instanceId": victim, "decrement": True, "reason": "a test"}]
    root_project.up(env=order(root_project, tmp_path, "train", desired=4, retire=leaving))
    group = group_in_aws(aws, "train")
    assert group["DesiredCapacity"] == 4
    assert victim not in [each["InstanceId"] for each in group["Instances"]]
    root_project.refresh()
    assert "retire" not in root_project.resource(GROUP, "train")["inputs"]

    root_project.destroy()
    assert aws("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"] == []
    assert aws("ec2").describe_launch_templates()["LaunchTemplates"] == []
    assert aws("iam").list_roles()["Roles"] == []


@pytest.mark.parametrize("text", [None, "{", '{"groups": []}', '{"groups": {"URN": {"desired": "many"}}}'])
def test_a_plan_file_that_is_no_plan_stops_the_run(root_project, aws, tmp_path, text):
    urn = "urn:pulumi:test::trimtab::trimtab:index:ScalingGroup$trimtab:aws:AutoScalingGroup::train"
    path = tmp_path / "plan.json"
    if text is not None:
        path.write_text(text.replace("URN", urn), encoding="utf-8")

    refused = root_project.preview(check=False, env={"TRIMTAB_PLAN_FILE": str(path)})

    assert refused.returncode != 0
    assert "plan" in refused.stdout
    assert "Traceback" not in refused.stdout + refused.stderr
    assert aws("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"] == []
