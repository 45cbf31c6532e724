"""The provider's kinds as typed Pulumi resources; schema.json describes each property.

Hand-written and thin. A test holds them to the schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi


class LaunchTemplate(pulumi.CustomResource):
    """An EC2 launch template for GPU nodes."""

    def __init__(
        self,
        resource_name: str,
        *,
        image_id: pulumi.Input[str],
        instance_type: pulumi.Input[str],
        name: pulumi.Input[str] | None = None,
        user_data: pulumi.Input[str] | None = None,
        user_data_base64: pulumi.Input[str] | None = None,
        iam_instance_profile: pulumi.Input[str] | None = None,
        security_group_ids: pulumi.Input[Sequence[pulumi.Input[str]]] | None = None,
        root_volume_size: pulumi.Input[int] | None = None,
        encrypted: pulumi.Input[bool] | None = None,
        metadata_http_tokens: pulumi.Input[str] | None = None,
        tags: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        properties = {
            "imageId": image_id,
            "instanceType": instance_type,
            "name": name,
            "userData": user_data,
            "userDataBase64": user_data_base64,
            "iamInstanceProfile": iam_instance_profile,
            "securityGroupIds": security_group_ids,
            "rootVolumeSize": root_volume_size,
            "encrypted": encrypted,
            "metadataHttpTokens": metadata_http_tokens,
            "tags": tags,
            "latestVersion": None,
        }
        super().__init__("trimtab:aws:LaunchTemplate", resource_name, properties, opts)

    @property
    def latest_version(self) -> pulumi.Output[str]:
        """The version that the last change made."""
        output: pulumi.Output[str] = self.__dict__["latestVersion"]
        return output


class AutoScalingGroup(pulumi.CustomResource):
    """An EC2 Auto Scaling group whose desired capacity has an owner."""

    def __init__(
        self,
        resource_name: str,
        *,
        min_size: pulumi.Input[int],
        max_size: pulumi.Input[int],
        launch_template_id: pulumi.Input[str],
        launch_template_version: pulumi.Input[str],
        name: pulumi.Input[str] | None = None,
        desired: pulumi.Input[int] | None = None,
        capacity: pulumi.Input[str] | None = None,
        pin: pulumi.Input[Mapping[str, Any]] | None = None,
        instance_type: pulumi.Input[str] | None = None,
        subnet_ids: pulumi.Input[Sequence[pulumi.Input[str]]] | None = None,
        availability_zones: pulumi.Input[Sequence[pulumi.Input[str]]] | None = None,
        scaling: pulumi.Input[Mapping[str, Any]] | None = None,
        repair: pulumi.Input[Mapping[str, Any]] | None = None,
        tags: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        properties = {
            "minSize": min_size,
            "maxSize": max_size,
            "launchTemplateId": launch_template_id,
            "launchTemplateVersion": launch_template_version,
            "name": name,
            "desired": desired,
            "capacity": capacity,
            "pin": pin,
            "instanceType": instance_type,
            "subnetIds": subnet_ids,
            "availabilityZones": availability_zones,
            "scaling": scaling,
            "repair": repair,
            "tags": tags,
            "arn": None,
        }
        super().__init__("trimtab:aws:AutoScalingGroup", resource_name, properties, opts)

    @property
    def arn(self) -> pulumi.Output[str]:
        """The group's ARN."""
        output: pulumi.Output[str] = self.__dict__["arn"]
        return output

    @property
    def name(self) -> pulumi.Output[str]:
        """The group's name in AWS."""
        output: pulumi.Output[str] = self.__dict__["name"]
        return output

    @property
    def desired(self) -> pulumi.Output[int]:
        """Desired capacity as last decided."""
        output: pulumi.Output[int] = self.__dict__["desired"]
        return output


class Role(pulumi.CustomResource):
    """An IAM role with at most one inline policy."""

    def __init__(
        self,
        resource_name: str,
        *,
        assume_role_policy: pulumi.Input[str],
        name: pulumi.Input[str] | None = None,
        policy: pulumi.Input[str] | None = None,
        managed_policy_arns: pulumi.Input[Sequence[pulumi.Input[str]]] | None = None,
        permissions_boundary: pulumi.Input[str] | None = None,
        max_session_seconds: pulumi.Input[int] | None = None,
        tags: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        properties = {
            "assumeRolePolicy": assume_role_policy,
            "name": name,
            "policy": policy,
            "managedPolicyArns": managed_policy_arns,
            "permissionsBoundary": permissions_boundary,
            "maxSessionSeconds": max_session_seconds,
            "tags": tags,
            "arn": None,
            "uniqueId": None,
        }
        super().__init__("trimtab:aws:Role", resource_name, properties, opts)

    @property
    def arn(self) -> pulumi.Output[str]:
        """The role's ARN."""
        output: pulumi.Output[str] = self.__dict__["arn"]
        return output

    @property
    def name(self) -> pulumi.Output[str]:
        """The role's name in AWS."""
        output: pulumi.Output[str] = self.__dict__["name"]
        return output

    @property
    def unique_id(self) -> pulumi.Output[str]:
        """The role's stable id."""
        output: pulumi.Output[str] = self.__dict__["uniqueId"]
        return output
