"""Roles do what they say: a viewer reads, a launcher runs jobs, and neither changes how the fleet is configured.

A role says what it is with the tag ``trimtab:access``; the component AccessRole sets it. Rights come from the role's
own documents and from policies attached to it in other resources, so one judgement serves a resource and a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from trimtab_policies.adapters import ACCESS, ACCESS_TAG, NOT_A_ROLE, claim, managed_policies, statements
from trimtab_policies.documents import Kind
from trimtab_policies.permissions import ROLE, document, role, shown
from trimtab_policies.plain import UNKNOWN, reach
from trimtab_policies.rule import Config, Finding, Option, Resource, ResourceRule, Rule, Severity, StackRule, sample
from trimtab_policies.verbs import LAUNCHING, is_one_of, only_reads, only_reads_managed

CLAIMS: Final = ("viewer", "launcher", "operator")
COMPONENT: Final = "trimtab:index:AccessRole$"
ALLOWED_BESIDES_READING: Final[Mapping[str, Sequence[str]]] = {"viewer": (), "launcher": LAUNCHING}
PROBLEM: Final[Mapping[str, str]] = {
    "viewer": "a viewer would be allowed {actions}, which does more than read metrics and state",
    "launcher": "a launcher would be allowed {actions}, which does more than read and run jobs",
}
OPTIONS: Final = {
    "alsoAllowed": Option(
        (),
        {
            "type": "array",
            "items": {"type": "string"},
            "description": "Actions that this kind of role may have besides those in the pack's tables, spelled out.",
        },
    )
}


def excess(holder: Resource, kind: str, config: Config) -> Iterator[Finding]:
    """What a resource gives to a viewer or launcher beyond what such a role may have."""
    allowed = (*ALLOWED_BESIDES_READING[kind], *config["alsoAllowed"])
    for where, statement in statements(holder, Kind.PERMISSIONS):
        actions = statement.actions or ("*",)
        if beyond := [each for each in actions if not only_reads(each) and not is_one_of(each, allowed)]:
            yield Finding(where, PROBLEM[kind].format(actions=shown(beyond)), urn=holder.urn)
    for where, arn in managed_policies(holder):
        if not only_reads_managed(arn):
            problem = f"a {kind} would get a managed policy whose content is not known to only read"
            yield Finding(where, problem, "Use an inline policy that lists the actions.", holder.urn)


def _only(kind: str) -> Callable[[Resource, Config], Iterator[Finding]]:
    def check(resource: Resource, config: Config) -> Iterator[Finding]:
        if claim(resource) == kind:
            yield from excess(resource, kind, config)

    return check


def _claims(resource: Resource, _config: Config) -> Iterator[Finding]:
    if not ACCESS.get(resource.type, NOT_A_ROLE).is_role:
        return
    said = claim(resource)
    if said is None and COMPONENT in resource.urn:
        yield Finding("tags", f"a role of the component AccessRole has no tag {ACCESS_TAG}")
    elif said not in (None, UNKNOWN, *CLAIMS):
        yield Finding("tags", f"the tag {ACCESS_TAG} is none of {', '.join(CLAIMS)}")


def _attached(resources: Sequence[Resource], config: Config) -> Iterator[Finding]:
    by_urn = {resource.urn: resource for resource in resources}
    roles = [resource for resource in resources if claim(resource) in ALLOWED_BESIDES_READING]
    for holder in resources:
        for target in (each for each in roles if _belongs(holder, each)):
            for source in _sources(holder, by_urn):
                yield from excess(source, str(claim(target)), config)


def _belongs(holder: Resource, target: Resource) -> bool:
    """Whether a separate policy or attachment names a role, by reference or by its name."""
    if ACCESS.get(holder.type, NOT_A_ROLE).is_role or holder.type not in ACCESS:
        return False
    referred = [urn for key in ("role", "roleName", "roles") for urn in holder.references.get(key, ())]
    named = [value for path in ("role", "roleName", "roles.*") for _, value in reach(holder.props, path)]
    name = target.props.get("name")
    return target.urn in referred or (isinstance(name, str) and name in named)


def _sources(holder: Resource, by_urn: Mapping[str, Resource]) -> list[Resource]:
    """Whose statements an attachment stands for: the policies of this stack that it attaches, else itself."""
    urns = [urn for key in ("policyArn", "policyArns") for urn in holder.references.get(key, ())]
    return [by_urn[urn] for urn in urns if urn in by_urn] or [holder]


def _tagged(kind: str) -> Mapping[str, Any]:
    return {"tags": {ACCESS_TAG: kind}}


def _split(actions: str) -> tuple[Resource, ...]:
    owner = sample("aws:iam/role:Role", _tagged("viewer"))
    policy = sample("aws:iam/rolePolicy:RolePolicy", {"policy": document(actions)}, role=owner.urn)
    return (owner, policy)


METRICS: Final = document(["cloudwatch:GetMetricData", "ec2:Describe*"])
JOBS: Final = document(["eks:AccessKubernetesApi", "ssm:StartSession"])

RULES: Final[tuple[Rule, ...]] = (
    ResourceRule(
        name="viewer-may-only-read",
        types=ACCESS,
        description="A role tagged viewer may only read, and may read no secrets.",
        severity=Severity.CRITICAL,
        reason="Viewers are many and are not asked twice; what they can change, anybody can.",
        fix="Remove the action, or give the person a role that says what it does.",
        options=OPTIONS,
        check=_only("viewer"),
        passing=role(METRICS, **_tagged("viewer")),
        failing=role(document("autoscaling:SetDesiredCapacity"), **_tagged("viewer")),
    ),
    ResourceRule(
        name="launcher-may-not-configure",
        types=ACCESS,
        description="A role tagged launcher may read and run jobs, and may not change configuration.",
        severity=Severity.CRITICAL,
        reason="Who starts jobs must not be able to change the machines, groups or rights that jobs run under.",
        fix="Remove the action, or name it in `alsoAllowed` if it only runs jobs.",
        options=OPTIONS,
        check=_only("launcher"),
        passing=role(JOBS, **_tagged("launcher")),
        failing=role(document("autoscaling:UpdateAutoScalingGroup"), **_tagged("launcher")),
    ),
    StackRule(
        name="attached-policies-keep-the-roles-word",
        description="Policies attached to a viewer or launcher in other resources keep to what the role says.",
        severity=Severity.CRITICAL,
        reason="A role and a policy can be harmless apart; together they are what the person can do.",
        fix="Remove the action, or attach the policy to a role that says what it does.",
        options=OPTIONS,
        check=_attached,
        passing=_split("ec2:DescribeInstances"),
        failing=_split("ec2:TerminateInstances"),
    ),
    ResourceRule(
        name="access-role-must-say-what-it-is",
        types=ACCESS,
        description="A role's tag trimtab:access is viewer, launcher or operator, and an AccessRole always has it.",
        severity=Severity.HIGH,
        reason="Rules can hold a role only to what it says it is.",
        fix="Set the tag trimtab:access to viewer, launcher or operator.",
        check=_claims,
        passing=(sample(ROLE, _tagged("operator")),),
        failing=(sample(ROLE, _tagged("superuser")),),
    ),
)
