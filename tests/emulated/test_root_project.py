"""The root project through the stock command line: what a person does by hand."""

from __future__ import annotations

import boto3
import pytest

pytestmark = pytest.mark.engine
GROUP = "trimtab:aws:AutoScalingGroup"


@pytest.fixture
def autoscaling(moto_server):
    return boto3.client(
        "autoscaling",
        endpoint_url=moto_server,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


def group_in_aws(autoscaling, name):
    return autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[f"trimtab-test-{name}"])[
        "AutoScalingGroups"
    ][0]


def test_up_creates_and_a_second_preview_is_empty_and_destroy_leaves_nothing(root_project, autoscaling):
    root_project.up()
    assert group_in_aws(autoscaling, "train")["DesiredCapacity"] == 1

    root_project.preview("--expect-no-changes")

    root_project.destroy()
    assert autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"] == []
