"""IAM roles with one inline policy and any number of managed ones."""

from __future__ import annotations

import json
from typing import Any

from trimtab.model.names import Urn
from trimtab.provider.aws import Aws, AwsCallError, plain_errors, tag_list, unless_gone, user_tags
from trimtab.provider.kinds.kind import Checked, Kind, Live, Props, named

INLINE = "trimtab"


def check(old: Props, new: Props, urn: Urn) -> Checked:
    """Fill in the name and bring policies into one form, so that white space is no difference."""
    inputs = {"maxSessionSeconds": 3600, **named(old, new, urn)}
    for key in ("assumeRolePolicy", "policy"):
        if isinstance(inputs.get(key), str):
            inputs[key] = canonical(inputs[key])
    return Checked(inputs)


def canonical(document: str) -> str:
    """A JSON document in one form; text that is not JSON stays, for AWS to refuse with its own words."""
    try:
        return json.dumps(json.loads(document), separators=(",", ":"), sort_keys=True)
    except json.JSONDecodeError:
        return document


def create(aws: Aws, inputs: Props, urn: Urn) -> Live:
    """Make the role, or take over the one that an interrupted run of ours made."""
    optional: dict[str, Any] = {}
    if inputs.get("permissionsBoundary"):
        optional["PermissionsBoundary"] = inputs["permissionsBoundary"]
    try:
        with plain_errors():
            aws.iam.create_role(
                RoleName=inputs["name"],
                AssumeRolePolicyDocument=inputs["assumeRolePolicy"],
                MaxSessionDuration=inputs["maxSessionSeconds"],
                Tags=tag_list(inputs.get("tags") or {}, urn.owner),  # type: ignore[arg-type]
                **optional,
            )
    except AwsCallError as error:
        if error.code != "EntityAlreadyExists":
            raise
        require_ours(aws, inputs["name"], urn)
        live = read(aws, inputs["name"], inputs)
        return update(aws, inputs["name"], live.inputs if live else {}, inputs, urn)
    return finished(aws, inputs["name"], {}, inputs)


def require_ours(aws: Aws, name: str, urn: Urn) -> None:
    """Refuse to touch somebody else's role of the same name.

    Raises:
        AwsCallError: the role's owner tag is not ours.
    """
    with plain_errors():
        found = aws.iam.get_role(RoleName=name)["Role"]
    if user_tags(found.get("Tags", []))[1] != urn.owner:
        raise AwsCallError(f"role {name} exists and is not ours: import it or choose another name")


def finished(aws: Aws, name: str, old: Props, new: Props) -> Live:
    """Attach policies; a refusal here leaves a role that exists, which is reported and not lost."""
    problems: tuple[str, ...] = ()
    try:
        with plain_errors():
            attach(aws, name, set(old.get("managedPolicyArns") or []), set(new.get("managedPolicyArns") or []))
            if new.get("policy"):
                aws.iam.put_role_policy(RoleName=name, PolicyName=INLINE, PolicyDocument=new["policy"])
    except AwsCallError as error:
        problems = (str(error),)
    with plain_errors():
        role = aws.iam.get_role(RoleName=name)["Role"]
    return Live(name, dict(new), {"arn": role["Arn"], "uniqueId": role["RoleId"]}, problems)


def attach(aws: Aws, name: str, old: set[str], new: set[str]) -> None:
    """Attach what is new and detach what is no longer wanted."""
    for arn in sorted(new - old):
        aws.iam.attach_role_policy(RoleName=name, PolicyArn=arn)
    for arn in sorted(old - new):
        aws.iam.detach_role_policy(RoleName=name, PolicyArn=arn)


def read(aws: Aws, identity: str, inputs: Props) -> Live | None:
    """The role as IAM has it."""
    found = unless_gone(lambda: aws.iam.get_role(RoleName=identity))
    if found is None:
        return None
    role = found["Role"]
    inline = unless_gone(lambda: aws.iam.get_role_policy(RoleName=identity, PolicyName=INLINE))
    with plain_errors():
        attached = aws.iam.list_attached_role_policies(RoleName=identity)["AttachedPolicies"]
    tags, _ = user_tags(role.get("Tags", []))
    live = {
        "name": identity,
        "assumeRolePolicy": document(role["AssumeRolePolicyDocument"]),
        "policy": document(inline["PolicyDocument"]) if inline else None,
        "managedPolicyArns": in_order([each["PolicyArn"] for each in attached], inputs.get("managedPolicyArns")),
        "permissionsBoundary": role.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn"),
        "maxSessionSeconds": role.get("MaxSessionDuration", 3600),
        "tags": tags,
    }
    kept = {key: value for key, value in live.items() if value or key in inputs}
    return Live(identity, kept, {"arn": role["Arn"], "uniqueId": role["RoleId"]})


def document(value: Any) -> str:
    """A policy as IAM answers it (an object or text) in our one form."""
    return canonical(value if isinstance(value, str) else json.dumps(value))


def in_order(found: list[str], declared: list[str] | None) -> list[str]:
    """The found items in the declared order, so that IAM's own order is no difference."""
    known = [each for each in declared or [] if each in found]
    return known + sorted(set(found) - set(known))


def update(aws: Aws, identity: str, old: Props, new: Props, urn: Urn) -> Live:
    """Bring an existing role to the declaration."""
    with plain_errors():
        aws.iam.update_assume_role_policy(RoleName=identity, PolicyDocument=new["assumeRolePolicy"])
        aws.iam.update_role(RoleName=identity, MaxSessionDuration=new["maxSessionSeconds"])
        bound(aws, identity, old, new)
        if old.get("policy") and not new.get("policy"):
            aws.iam.delete_role_policy(RoleName=identity, PolicyName=INLINE)
        gone = set(old.get("tags") or {}) - set(new.get("tags") or {})
        if gone:
            aws.iam.untag_role(RoleName=identity, TagKeys=sorted(gone))
        aws.iam.tag_role(RoleName=identity, Tags=tag_list(new.get("tags") or {}, urn.owner))  # type: ignore[arg-type]
    return finished(aws, identity, old, new)


def bound(aws: Aws, name: str, old: Props, new: Props) -> None:
    """Set or lift the permissions boundary."""
    if new.get("permissionsBoundary"):
        aws.iam.put_role_permissions_boundary(RoleName=name, PermissionsBoundary=new["permissionsBoundary"])
    elif old.get("permissionsBoundary"):
        aws.iam.delete_role_permissions_boundary(RoleName=name)


def delete(aws: Aws, identity: str) -> None:
    """Detach everything, then remove the role; what is gone already is fine."""
    attached = unless_gone(lambda: aws.iam.list_attached_role_policies(RoleName=identity))
    for each in (attached or {}).get("AttachedPolicies", []):
        arn = each["PolicyArn"]
        unless_gone(lambda arn=arn: aws.iam.detach_role_policy(RoleName=identity, PolicyArn=arn))  # type: ignore[misc]
    inline = unless_gone(lambda: aws.iam.list_role_policies(RoleName=identity))
    for name in (inline or {}).get("PolicyNames", []):
        unless_gone(lambda name=name: aws.iam.delete_role_policy(RoleName=identity, PolicyName=name))  # type: ignore[misc]
    unless_gone(lambda: aws.iam.delete_role(RoleName=identity))


KIND = Kind("trimtab:aws:Role", check, create, read, update, delete)
