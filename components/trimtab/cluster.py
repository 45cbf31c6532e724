"""GpuCluster: what the scaling groups of one cluster share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi

from trimtab.model.access import service_trust
from trimtab.model.errors import DeclarationError
from trimtab.resources import Role


class GpuCluster(pulumi.ComponentResource):
    """A GPU cluster on plain EC2 in subnets that exist already.

    Attributes:
        cluster_name: the name that tags carry as ``trimtab:cluster``.
        tags: tags of everything in the cluster.
        node_role: the IAM role of its nodes.
    """

    def __init__(
        self,
        name: str,
        *,
        image_id: pulumi.Input[str],
        subnet_ids: Sequence[pulumi.Input[str]] = (),
        availability_zones: Sequence[str] = (),
        tags: Mapping[str, str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declare the cluster.

        Raises:
            DeclarationError: neither or both of `subnet_ids` and `availability_zones` are given.
        """
        if bool(subnet_ids) == bool(availability_zones):
            raise DeclarationError(
                "subnet_ids", "give subnet_ids, or availability_zones for the default VPC, and not both"
            )
        super().__init__("trimtab:index:GpuCluster", name, {}, opts)
        self.cluster_name = name
        self.image_id = image_id
        self.subnet_ids = list(subnet_ids)
        self.availability_zones = list(availability_zones)
        self.tags = {**(tags or {}), "trimtab:cluster": name}
        self.node_role = Role(
            f"{name}-node",
            assume_role_policy=service_trust("ec2.amazonaws.com"),
            tags=self.tags,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"clusterName": name, "nodeRoleArn": self.node_role.arn})
