"""ScalingGroup: a launch template and an auto-scaling group whose number is the reconciler's."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from trimtab.cluster import GpuCluster
from trimtab.model.errors import DeclarationError
from trimtab.model.scaling import CapacityOwner, Pin, RepairPolicy, ScalingPolicy
from trimtab.resources import AutoScalingGroup, LaunchTemplate


class ScalingGroup(pulumi.ComponentResource):
    """Nodes of one instance type that grow, shrink and are repaired together.

    Attributes:
        template: the launch template.
        group: the auto-scaling group; its logical name is the component's, and the name that every command uses.
    """

    def __init__(
        self,
        name: str,
        *,
        cluster: GpuCluster,
        instance_type: str,
        min_size: int,
        max_size: int,
        scaling: ScalingPolicy | None = None,
        repair: RepairPolicy | None = None,
        capacity: CapacityOwner = CapacityOwner.RECONCILER,
        desired: int | None = None,
        pin: Pin | None = None,
        user_data: pulumi.Input[str] | None = None,
        iam_instance_profile: pulumi.Input[str] | None = None,
        security_group_ids: Sequence[pulumi.Input[str]] = (),
        root_volume_size: int | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declare the group.

        Raises:
            DeclarationError: a size is out of order, or `desired` is given for a group that code does not own.
        """
        require_sizes(min_size, max_size, desired, capacity)
        super().__init__("trimtab:index:ScalingGroup", name, {}, opts)
        tags = {**cluster.tags, "trimtab:group": name}
        child = pulumi.ResourceOptions(parent=self)
        self.template = LaunchTemplate(
            name,
            image_id=cluster.image_id,
            instance_type=instance_type,
            user_data=user_data,
            iam_instance_profile=iam_instance_profile,
            security_group_ids=list(security_group_ids) or None,
            root_volume_size=root_volume_size,
            tags=tags,
            opts=child,
        )
        self.group = AutoScalingGroup(
            name,
            min_size=min_size,
            max_size=max_size,
            desired=desired,
            capacity=capacity.value,
            pin=pin.to_wire() if pin else None,
            instance_type=instance_type,
            launch_template_id=self.template.id,
            launch_template_version=self.template.latest_version,
            subnet_ids=cluster.subnet_ids or None,
            availability_zones=cluster.availability_zones or None,
            scaling=(scaling or ScalingPolicy()).to_wire(),
            repair=(repair or RepairPolicy()).to_wire(),
            tags=tags,
            opts=child,
        )
        self.register_outputs({"groupName": self.group.name, "desired": self.group.desired})


def require_sizes(low: int, high: int, desired: int | None, owner: CapacityOwner) -> None:
    """Refuse sizes that make no sense before anything is called.

    Raises:
        DeclarationError: naming the argument.
    """
    if not 0 <= low <= high:
        raise DeclarationError("min_size", f"must lie in 0..max_size, got {low} with max_size {high}")
    if desired is None:
        return
    if owner is not CapacityOwner.CODE:
        raise DeclarationError(
            "desired", f"belongs to the {owner.value} here; set capacity=CapacityOwner.CODE to own it"
        )
    if not low <= desired <= high:
        raise DeclarationError("desired", f"must lie in {low}..{high}, got {desired}")
