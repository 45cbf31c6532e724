"""Where each resource type keeps what the rules ask about: one row a type, so that a rule is written once.

A type without a row is not judged by that theme. Property names are those on the wire.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from trimtab_policies.documents import DocumentError, Kind, Statement, parse
from trimtab_policies.plain import UNKNOWN, has_unknown, reach
from trimtab_policies.rule import Resource

ACCESS_TAG: Final = "trimtab:access"


@dataclass(frozen=True, slots=True)
class AccessShape:
    """Paths (see `plain.reach`) of a type's permission documents, trust document and attached managed policies."""

    documents: tuple[str, ...] = ()
    trust: tuple[str, ...] = ()
    managed: tuple[str, ...] = ()
    is_role: bool = False


ACCESS: Final[Mapping[str, AccessShape]] = {
    "trimtab:aws:Role": AccessShape(("policy",), ("assumeRolePolicy",), ("managedPolicyArns.*",), is_role=True),
    "aws:iam/role:Role": AccessShape(
        ("inlinePolicies.*.policy",), ("assumeRolePolicy",), ("managedPolicyArns.*",), is_role=True
    ),
    "aws:iam/policy:Policy": AccessShape(("policy",)),
    "aws:iam/rolePolicy:RolePolicy": AccessShape(("policy",)),
    "aws:iam/userPolicy:UserPolicy": AccessShape(("policy",)),
    "aws:iam/groupPolicy:GroupPolicy": AccessShape(("policy",)),
    "aws:iam/policyAttachment:PolicyAttachment": AccessShape(managed=("policyArn",)),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": AccessShape(managed=("policyArn",)),
    "aws:iam/userPolicyAttachment:UserPolicyAttachment": AccessShape(managed=("policyArn",)),
    "aws:iam/groupPolicyAttachment:GroupPolicyAttachment": AccessShape(managed=("policyArn",)),
    "aws:iam/rolePolicyAttachmentsExclusive:RolePolicyAttachmentsExclusive": AccessShape(managed=("policyArns.*",)),
}
NOT_A_ROLE: Final = AccessShape()


@dataclass(frozen=True, slots=True)
class GroupShape:
    """Paths of a group's bounds and instance types.

    Attributes:
        types: instance types written in the group itself.
        templates: launch templates that say the type when the group does not.
        declares: whether the type belongs into the group itself.
    """

    most: str
    types: tuple[str, ...]
    templates: tuple[str, ...]
    declares: bool


GROUPS: Final[Mapping[str, GroupShape]] = {
    "trimtab:aws:AutoScalingGroup": GroupShape("maxSize", ("instanceType",), ("launchTemplateId",), declares=True),
    "aws:autoscaling/group:Group": GroupShape(
        "maxSize",
        ("mixedInstancesPolicy.launchTemplate.overrides.*.instanceType",),
        ("launchTemplate.id", "mixedInstancesPolicy.launchTemplate.launchTemplateSpecification.launchTemplateId"),
        declares=False,
    ),
}


@dataclass(frozen=True, slots=True)
class TemplateShape:
    """Paths of a launch template's security settings, and what an absent one means."""

    tokens: str
    encrypted: str
    tokens_when_absent: str | None
    encrypted_when_absent: bool | None


TEMPLATES: Final[Mapping[str, TemplateShape]] = {
    "trimtab:aws:LaunchTemplate": TemplateShape("metadataHttpTokens", "encrypted", "required", True),
    "aws:ec2/launchTemplate:LaunchTemplate": TemplateShape(
        "metadataOptions.httpTokens", "blockDeviceMappings.*.ebs.encrypted", None, None
    ),
}


def raw_documents(resource: Resource) -> Iterator[tuple[str, Any, Kind]]:
    """Every access document of a resource as it stands: where, what, and its kind."""
    shape = ACCESS.get(resource.type, NOT_A_ROLE)
    for paths, kind in ((shape.documents, Kind.PERMISSIONS), (shape.trust, Kind.TRUST)):
        for path in paths:
            for where, document in reach(resource.props, path):
                yield where, document, kind


def statements(resource: Resource, kind: Kind) -> Iterator[tuple[str, Statement]]:
    """The statements that allow something, of the documents that can be read; others have rules of their own."""
    for where, document, its_kind in raw_documents(resource):
        if its_kind is not kind or has_unknown(document):
            continue
        try:
            parsed = parse(document, kind)
        except DocumentError:
            continue
        yield from ((f"{where}, statement {each.position}", each) for each in parsed if each.allows)


def managed_policies(resource: Resource) -> Iterator[tuple[str, Any]]:
    """The ARNs of the managed policies that a resource attaches, and where."""
    for path in ACCESS.get(resource.type, NOT_A_ROLE).managed:
        yield from reach(resource.props, path)


def claim(resource: Resource) -> Any:
    """What a role says it is: its tag, empty when that is no text, `UNKNOWN`, or None when it says nothing."""
    if not ACCESS.get(resource.type, NOT_A_ROLE).is_role:
        return None
    said = next((value for _, value in reach(resource.props, f"tags.{ACCESS_TAG}")), None)
    return said if said is None or said is UNKNOWN or isinstance(said, str) else ""
