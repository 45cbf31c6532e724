"""Who may do what, compiled to IAM documents. Pure: a declaration in, JSON out.

Three people, three lists of actions. Everything not listed is denied, and a launcher or viewer is denied
configuration explicitly, so that no policy attached later can hand it out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from trimtab.model.errors import DeclarationError

VERSION: Final = "2012-10-17"


class Access(StrEnum):
    """What a person is allowed to do with a cluster."""

    VIEWER = "viewer"
    LAUNCHER = "launcher"
    OPERATOR = "operator"


READ_METRICS: Final = (
    "cloudwatch:DescribeAlarms",
    "cloudwatch:GetDashboard",
    "cloudwatch:GetMetricData",
    "cloudwatch:GetMetricStatistics",
    "cloudwatch:ListMetrics",
)
READ_FLEET: Final = (
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeScalingActivities",
    "ec2:DescribeInstanceStatus",
    "ec2:DescribeInstances",
)
LAUNCH_JOBS: Final = ("eks:AccessKubernetesApi", "eks:DescribeCluster")  # no shell: it would hand out the node's role
OPERATE_GROUPS: Final = (
    "autoscaling:SetDesiredCapacity",
    "autoscaling:SetInstanceHealth",
    "autoscaling:TerminateInstanceInAutoScalingGroup",
)
CONFIGURE: Final = (
    "autoscaling:Create*",
    "autoscaling:Delete*",
    "autoscaling:Put*",
    "autoscaling:UpdateAutoScalingGroup",
    "ec2:CreateLaunchTemplate*",
    "ec2:DeleteLaunchTemplate*",
    "ec2:ModifyLaunchTemplate",
    "eks:Create*",
    "eks:Delete*",
    "eks:Update*",
    "iam:*",
)


def allow(actions: Sequence[str], resources: Sequence[str] = ("*",), **conditions: Mapping[str, str]) -> dict[str, Any]:
    """One Allow statement."""
    statement = {"Effect": "Allow", "Action": sorted(actions), "Resource": sorted(resources)}
    return {**statement, "Condition": conditions} if conditions else statement


def deny_configuration() -> dict[str, Any]:
    """The statement that keeps configuration out of reach whatever else is attached."""
    return {"Effect": "Deny", "Action": sorted(CONFIGURE), "Resource": ["*"]}


def statements(access: Access, cluster: str) -> list[dict[str, Any]]:
    """The statements of one kind of access to one cluster; tags name what belongs to it."""
    tagged = {"aws:ResourceTag/trimtab:cluster": cluster}
    reading = [allow(READ_METRICS), allow(READ_FLEET)]
    match access:
        case Access.VIEWER:
            return [allow(READ_METRICS), deny_configuration()]
        case Access.LAUNCHER:
            return [*reading, allow(LAUNCH_JOBS, StringEquals=tagged), deny_configuration()]
        case Access.OPERATOR:
            return [*reading, allow(OPERATE_GROUPS, StringEquals=tagged)]


def policy_document(access: Access, cluster: str) -> str:
    """The inline policy of a role, as JSON."""
    return _document(statements(access, cluster))


def trust_document(principals: Sequence[str]) -> str:
    """The trust policy for the named principals, as JSON.

    Raises:
        DeclarationError: nobody is named, or everybody.
    """
    if not principals:
        raise DeclarationError("principals", "name at least one principal that may assume the role")
    if any("*" in each for each in principals):
        raise DeclarationError("principals", "a role that anybody may assume is not allowed")
    return _document([{"Effect": "Allow", "Principal": {"AWS": sorted(principals)}, "Action": "sts:AssumeRole"}])


def service_trust(service: str) -> str:
    """The trust policy for an AWS service, for example ``ec2.amazonaws.com``, as JSON."""
    return _document([{"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}])


def _document(parts: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": VERSION, "Statement": parts}, separators=(",", ":"), sort_keys=True)
