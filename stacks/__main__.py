"""One cluster, its scaling groups and its roles, as the stack's configuration declares them."""

import pulumi

from trimtab.access_role import AccessRole
from trimtab.cluster import GpuCluster
from trimtab.model.access import Access
from trimtab.model.scaling import RepairPolicy, ScalingPolicy
from trimtab.scaling_group import ScalingGroup

config = pulumi.Config()

cluster = GpuCluster(
    config.require("cluster"),
    image_id=config.require("imageId"),
    subnet_ids=config.get_object("subnetIds") or [],
    availability_zones=config.get_object("availabilityZones") or [],
    tags=config.get_object("tags"),
)

for name, group in config.require_object("groups").items():
    ScalingGroup(
        name,
        cluster=cluster,
        instance_type=group["instanceType"],
        min_size=group["min"],
        max_size=group["max"],
        scaling=ScalingPolicy.from_wire(group.get("scaling"), f"groups.{name}.scaling"),
        repair=RepairPolicy.from_wire(group.get("repair"), f"groups.{name}.repair"),
    )

for name, role in (config.get_object("roles") or {}).items():
    AccessRole(name, cluster=cluster, access=Access(role["access"]), principals=role["principals"])
