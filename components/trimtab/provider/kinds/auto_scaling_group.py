"""EC2 Auto Scaling groups whose desired capacity has an owner and whose leaving nodes are named.

Where the reconciler owns the number, instances are protected from scale-in: AWS never picks which one goes, `retire`
is the only way out. Bounds and desired capacity always travel in one call, so they never contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import repeat
from typing import Any

from trimtab.model.errors import DeclarationError
from trimtab.model.names import Urn
from trimtab.model.scaling import CapacityOwner, Pin, RepairPolicy, ScalingPolicy
from trimtab.provider.aws import OWNER_TAG, Aws, AwsCallError, plain_errors, user_tags
from trimtab.provider.capacity import Claim, decide
from trimtab.provider.codec import has_unknown
from trimtab.provider.kinds.kind import Checked, Kind, Live, Props, named
from trimtab.provider.plan_file import Order, order_for

STOPPING = frozenset({"Terminating", "Terminating:Wait", "Terminating:Proceed", "Terminated"})
PROTECTION_BATCH = 50
DELETION_POLLS_SECONDS = (0.2, 0.5, 1.0, 2.0, *repeat(5.0, 360))


def check(old: Props, new: Props, urn: Urn) -> Checked:
    """Validate the policies and decide desired capacity; unknown bounds leave it for the update."""
    if new.get("retire"):
        raise DeclarationError("retire", "only the reconciler's plan fills this list; remove it from the program")
    inputs = {"capacity": CapacityOwner.RECONCILER.value, **named(old, new, urn)}
    for key, policy in (("scaling", ScalingPolicy), ("repair", RepairPolicy), ("pin", Pin)):
        if inputs.get(key) is not None and not has_unknown(inputs[key]):
            policy.from_wire(inputs[key], key)
    if has_unknown(
        [inputs["minSize"], inputs["maxSize"], inputs["capacity"], inputs.get("pin"), inputs.get("desired")]
    ):
        return Checked(inputs)
    order = order_for(urn.text)
    retire = leaving(old.get("retire") or [], order)
    decision = decide(claim(old, inputs, order), datetime.now(UTC))
    decided = {**inputs, "desired": decision.desired, **({"retire": retire} if retire else {})}
    return Checked(decided, (decision.remark,) if decision.remark else ())


def claim(old: Props, inputs: Props, order: Order | None) -> Claim:
    """Who speaks for the group's number in this run.

    Raises:
        DeclarationError: the bounds or the owner make no sense.
    """
    if inputs["capacity"] not in tuple(CapacityOwner):
        raise DeclarationError("capacity", f"expected one of {', '.join(CapacityOwner)}, got {inputs['capacity']!r}")
    if not 0 <= inputs["minSize"] <= inputs["maxSize"]:
        raise DeclarationError("minSize", f"must lie in 0..maxSize, got {inputs['minSize']} with {inputs['maxSize']}")
    pin = inputs.get("pin")
    return Claim(
        owner=CapacityOwner(inputs["capacity"]),
        low=inputs["minSize"],
        high=inputs["maxSize"],
        declared=inputs.get("desired"),
        last=old.get("desired"),
        pin=None if pin is None else Pin.from_wire(pin),
        order=order,
    )


def leaving(old: list[dict[str, Any]], order: Order | None) -> list[dict[str, Any]]:
    """The instances on their way out: those of before that are not gone yet, and the plan's."""
    known = {entry["instanceId"] for entry in old}
    fresh = [entry for entry in (order.retire if order else ()) if entry["instanceId"] not in known]
    return [*old, *fresh]


def placement(inputs: Props) -> dict[str, Any]:
    """Where and from what nodes start, in AWS's form."""
    where: dict[str, Any] = {
        "LaunchTemplate": {"LaunchTemplateId": inputs["launchTemplateId"], "Version": inputs["launchTemplateVersion"]}
    }
    if inputs.get("subnetIds"):
        where["VPCZoneIdentifier"] = ",".join(inputs["subnetIds"])
    elif inputs.get("availabilityZones"):
        where["AvailabilityZones"] = list(inputs["availabilityZones"])
    return where


def group_tags(name: str, tags: dict[str, str]) -> list[Any]:
    """Tags in the group's own form; they reach the instances."""
    fixed = {"ResourceId": name, "ResourceType": "auto-scaling-group", "PropagateAtLaunch": True}
    return [{**fixed, "Key": key, "Value": value} for key, value in sorted(tags.items())]


def lookup(aws: Aws, name: str) -> Any:
    """The group of this name in whatever condition, or None."""
    with plain_errors():
        groups = aws.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
    return groups[0] if groups else None


def find(aws: Aws, name: str) -> Any:
    """The group of this name, or None; a group that is being deleted counts as gone."""
    group = lookup(aws, name)
    return None if group is None or group.get("Status") else group


def require(aws: Aws, name: str) -> Any:
    """The group of this name.

    Raises:
        AwsCallError: there is none.
    """
    group = find(aws, name)
    if group is None:
        raise AwsCallError(f"auto-scaling group {name} is gone: `pulumi refresh` drops it, `pulumi up` makes it again")
    return group


def members(group: Any) -> frozenset[str]:
    """The ids of the group's instances that are not on their way out."""
    return frozenset(each["InstanceId"] for each in group["Instances"] if each["LifecycleState"] not in STOPPING)


def protects(inputs: Props) -> bool:
    """Whether AWS may not choose which instance leaves."""
    return bool(inputs.get("capacity") == CapacityOwner.RECONCILER)


def create(aws: Aws, inputs: Props, urn: Urn) -> Live:
    """Make the group, or take over the one that an interrupted run of ours made."""
    name = inputs["name"]
    if (found := find(aws, name)) is not None:
        if user_tags(found["Tags"])[1] != urn.owner:
            raise AwsCallError(f"auto-scaling group {name} exists and is not ours: import it or choose another name")
        return update(aws, name, as_made(found), inputs, urn)
    with plain_errors():
        aws.autoscaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=inputs["minSize"],
            MaxSize=inputs["maxSize"],
            DesiredCapacity=inputs["desired"],
            NewInstancesProtectedFromScaleIn=protects(inputs),
            Tags=group_tags(name, {**(inputs.get("tags") or {}), OWNER_TAG: urn.owner}),
            **placement(inputs),
        )
    return Live(name, dict(inputs), {"arn": require(aws, name)["AutoScalingGroupARN"]})


def as_made(group: Any) -> Props:
    """What an interrupted run declared, as far as AWS shows it: its tags, and whether AWS may choose who leaves."""
    owner = CapacityOwner.RECONCILER if group.get("NewInstancesProtectedFromScaleIn") else CapacityOwner.CODE
    return {"tags": user_tags(group["Tags"])[0], "capacity": owner.value}


def read(aws: Aws, identity: str, inputs: Props) -> Live | None:
    """The group as AWS has it; what AWS does not store is kept from the state."""
    group = find(aws, identity)
    if group is None:
        return None
    present = members(group)
    template, tags = group.get("LaunchTemplate", {}), user_tags(group["Tags"])[0]
    live = {
        "name": identity,
        "minSize": group["MinSize"],
        "maxSize": group["MaxSize"],
        "desired": group["DesiredCapacity"],
        "launchTemplateId": template.get("LaunchTemplateId"),
        "launchTemplateVersion": template.get("Version"),
        "tags": tags,
        "retire": [entry for entry in inputs.get("retire") or [] if entry["instanceId"] in present],
        **located(group, inputs),
    }
    kept = {**inputs, **live}
    optional = {"tags": "tags" in inputs, "retire": False}
    return Live(
        identity,
        {key: value for key, value in kept.items() if value or optional.get(key, value is not None)},
        {"arn": group["AutoScalingGroupARN"]},
        remarks=shortage(aws, group),
    )


def shortage(aws: Aws, group: Any) -> tuple[str, ...]:
    """Why nodes are missing, in AWS's own words, where its last attempt to start some failed."""
    name, wanted, present = group["AutoScalingGroupName"], group["DesiredCapacity"], len(members(group))
    if present >= wanted:
        return ()
    with plain_errors():
        activities = aws.autoscaling.describe_scaling_activities(AutoScalingGroupName=name, MaxRecords=10)["Activities"]
    ended = next((each for each in activities if each["StatusCode"] in {"Failed", "Cancelled", "Successful"}), None)
    if ended is None or ended["StatusCode"] == "Successful":
        return ()
    return (f"{present} of {wanted} nodes; AWS could not start more: {ended.get('StatusMessage', 'no reason given')}",)


def located(group: Any, inputs: Props) -> dict[str, Any]:
    """Subnets or zones, whichever the declaration uses, in its own order."""
    subnets = [each for each in group.get("VPCZoneIdentifier", "").split(",") if each]
    if subnets:
        return {"subnetIds": ordered(subnets, inputs.get("subnetIds"))}
    return {"availabilityZones": ordered(list(group.get("AvailabilityZones", [])), inputs.get("availabilityZones"))}


def ordered(found: list[str], declared: list[str] | None) -> list[str]:
    """The declared list when it holds the same items, so that AWS's order is no difference."""
    return list(declared) if declared is not None and set(declared) == set(found) else found


def update(aws: Aws, identity: str, old: Props, new: Props, urn: Urn) -> Live:
    """Grow first, then let the named instances go, then settle on the final numbers.

    Every listed instance that is still there goes, not only a newly listed one: an interrupted update is finished.
    """
    group = require(aws, identity)
    present = members(group)
    going = [entry for entry in new.get("retire") or [] if entry["instanceId"] in present]
    peak = new["desired"] + sum(entry["decrement"] for entry in going)
    with plain_errors():
        resize(aws, identity, {**new, "maxSize": max(new["maxSize"], peak), "desired": peak}, placement(new))
        retag(aws, identity, old, new, urn)
        if protects(old) != protects(new):
            protect(aws, identity, present, protected=protects(new))
    problems = tuple(problem for entry in going if (problem := retire(aws, entry)))
    if peak != new["desired"]:
        with plain_errors():
            resize(aws, identity, new, {})
    return Live(identity, dict(new), {"arn": group["AutoScalingGroupARN"]}, problems)


def resize(aws: Aws, name: str, inputs: Props, extra: dict[str, Any]) -> None:
    """Bounds and desired capacity in one call."""
    aws.autoscaling.update_auto_scaling_group(
        AutoScalingGroupName=name,
        MinSize=inputs["minSize"],
        MaxSize=inputs["maxSize"],
        DesiredCapacity=inputs["desired"],
        NewInstancesProtectedFromScaleIn=protects(inputs),
        **extra,
    )


def protect(aws: Aws, name: str, instances: Iterable[str], *, protected: bool) -> None:
    """Bring instances that run already to the group's new owner."""
    ids = sorted(instances)
    for start in range(0, len(ids), PROTECTION_BATCH):
        batch = ids[start : start + PROTECTION_BATCH]
        aws.autoscaling.set_instance_protection(
            AutoScalingGroupName=name, InstanceIds=batch, ProtectedFromScaleIn=protected
        )


def retag(aws: Aws, name: str, old: Props, new: Props, urn: Urn) -> None:
    """Bring tags to the declaration."""
    before, after = old.get("tags") or {}, new.get("tags") or {}
    if gone := set(before) - set(after):
        aws.autoscaling.delete_tags(Tags=group_tags(name, {key: before[key] for key in gone}))
    if before != after:
        aws.autoscaling.create_or_update_tags(Tags=group_tags(name, {**after, OWNER_TAG: urn.owner}))


def retire(aws: Aws, entry: Props) -> str | None:
    """Terminate one instance through its group; None, or the reason why it could not go."""
    try:
        with plain_errors():
            aws.autoscaling.terminate_instance_in_auto_scaling_group(
                InstanceId=entry["instanceId"], ShouldDecrementDesiredCapacity=entry["decrement"]
            )
    except AwsCallError as error:
        return f"{entry['instanceId']} could not be retired: {error}"
    return None


def delete(aws: Aws, identity: str) -> None:
    """Remove the group with its instances and wait until it is gone, so that its name and template are free.

    Raises:
        AwsCallError: it is still there after half an hour.
    """
    if find(aws, identity) is not None:
        with plain_errors():
            aws.autoscaling.delete_auto_scaling_group(AutoScalingGroupName=identity, ForceDelete=True)
    for seconds in DELETION_POLLS_SECONDS:
        if lookup(aws, identity) is None:
            return
        aws.wait(seconds)
    raise AwsCallError(f"auto-scaling group {identity} is still being deleted; run the same command again")


KIND = Kind("trimtab:aws:AutoScalingGroup", check, create, read, update, delete, live=True)
