"""AccessRole: one word about a person, compiled into an IAM role."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from trimtab.cluster import GpuCluster
from trimtab.model.access import Access, policy_document, trust_document
from trimtab.resources import Role


class AccessRole(pulumi.ComponentResource):
    """A role for people: viewer, launcher or operator of one cluster.

    Attributes:
        role: the IAM role, tagged ``trimtab:access`` so that policies know what it claims to be.
    """

    def __init__(
        self,
        name: str,
        *,
        cluster: GpuCluster,
        access: Access,
        principals: Sequence[str],
        permissions_boundary: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declare the role; `principals` are the ARNs that may assume it."""
        trust = trust_document(principals)
        super().__init__("trimtab:index:AccessRole", name, {}, opts)
        self.role = Role(
            name,
            assume_role_policy=trust,
            policy=policy_document(access, cluster.cluster_name),
            permissions_boundary=permissions_boundary,
            tags={**cluster.tags, "trimtab:access": access.value},
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"roleArn": self.role.arn})
