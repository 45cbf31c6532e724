"""Nobody gets everything: no administrator by wildcard, by exception, by managed policy or by promoting themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from trimtab_policies.adapters import ACCESS, managed_policies, statements
from trimtab_policies.documents import (
    Kind,
    Statement,
    covers_any,
    covers_everything,
    covers_service,
    is_wild,
    matches,
)
from trimtab_policies.plain import UNKNOWN
from trimtab_policies.rule import Config, Finding, Level, Resource, ResourceRule, Severity, sample

IDENTITY_SERVICES: Final = ("iam", "kms", "organizations", "sts")
ADMIN_POLICIES: Final = (
    "AdministratorAccess*",
    "AWSOrganizationsFullAccess",
    "IAMFullAccess",
    "PowerUserAccess",
    "job-function/*Administrator",
)
SELF_PROMOTION: Final = (
    "iam:AddUserToGroup",
    "iam:AttachGroupPolicy",
    "iam:AttachRolePolicy",
    "iam:AttachUserPolicy",
    "iam:CreateAccessKey",
    "iam:CreateLoginProfile",
    "iam:CreatePolicyVersion",
    "iam:DeleteRolePermissionsBoundary",
    "iam:DeleteUserPermissionsBoundary",
    "iam:PutGroupPolicy",
    "iam:PutRolePermissionsBoundary",
    "iam:PutRolePolicy",
    "iam:PutUserPermissionsBoundary",
    "iam:PutUserPolicy",
    "iam:SetDefaultPolicyVersion",
    "iam:UpdateAssumeRolePolicy",
    "iam:UpdateLoginProfile",
)
PRINCIPALS: Final = ("group", "policy", "role", "user")
ASSUMING: Final = ("sts:AssumeRole", "sts:AssumeRoleWithSAML", "sts:AssumeRoleWithWebIdentity")
SHOWN: Final = re.compile(r"[*?]+|[A-Za-z0-9*?-]{1,40}:[A-Za-z0-9*?]{1,64}")
ROLE: Final = "trimtab:aws:Role"


def shown(actions: Sequence[str]) -> str:
    """Actions in a message: at most three, and only what has the shape of one."""
    fit = [action for action in actions if SHOWN.fullmatch(action)]
    return ", ".join(fit[:3]) + (f" and {len(actions) - 3} more" if len(actions) > 3 else "")


def per_statement(
    concerned: Callable[[Statement], Sequence[str]], words: str
) -> Callable[[Resource, Config], Iterator[Finding]]:
    """A check that reports, for each allowing statement, the actions that `concerned` picks out."""

    def check(resource: Resource, _config: Config) -> Iterator[Finding]:
        for where, statement in statements(resource, Kind.PERMISSIONS):
            if found := concerned(statement):
                yield Finding(where, words.format(actions=shown(found)))

    return check


def _administrative(statement: Statement) -> list[str]:
    wide = any(covers_everything(resource) for resource in statement.resources)
    return [action for action in statement.actions if wide and covers_service(action)]


def _identity_wide(statement: Statement) -> list[str]:
    """All of an identity service by its name, or by a wildcard on a resource of such a service."""
    theirs = any(resource.split(":")[2:3] == [each] for resource in statement.resources for each in IDENTITY_SERVICES)
    wide = [action for action in statement.actions if covers_service(action)]
    return [action for action in wide if (theirs if is_wild(action) else _names_identity_service(action))]


def _names_identity_service(action: str) -> bool:
    return any(matches(action.partition(":")[0], each) for each in IDENTITY_SERVICES)


def _on_any(kinds: Sequence[str], names: Sequence[str]) -> Callable[[Statement], list[str]]:
    """Picks the actions that cover one of the named, where a statement's resources cover every one of these kinds."""

    def concerned(statement: Statement) -> list[str]:
        if not any(covers_any(resource, kinds) for resource in statement.resources):
            return []
        return [action for action in statement.actions if any(matches(action, name) for name in names)]

    return concerned


def _by_exception(resource: Resource, _config: Config) -> Iterator[Finding]:
    for where, statement in statements(resource, Kind.PERMISSIONS):
        for element, present in (("NotAction", statement.not_actions), ("NotResource", statement.not_resources)):
            if present:
                yield Finding(where, f"it allows with {element}")


def _admin_policies(resource: Resource, _config: Config) -> Iterator[Finding]:
    for where, arn in managed_policies(resource):
        name = arn.partition(":policy/")[2] if isinstance(arn, str) else ""
        if found := next((each for each in ADMIN_POLICIES if matches(each, name)), None):
            yield Finding(where, f"it attaches {found}")


def _unknown_policies(resource: Resource, _config: Config) -> Iterator[Finding]:
    for where, arn in managed_policies(resource):
        if arn is UNKNOWN:
            yield Finding(where, "which managed policy is attached is not known before the update")


def document(actions: Any, resources: Any = "*", **others: Any) -> str:
    """A permission document of one allowing statement, for examples."""
    statement = {"Effect": "Allow", "Action": actions, "Resource": resources, **others}
    return json.dumps({"Version": "2012-10-17", "Statement": statement})


def role(policy: str, **props: Any) -> tuple[Resource, ...]:
    """A role with an inline policy, for examples."""
    return (sample(ROLE, {"policy": policy, **props}),)


def _attached(name: str) -> tuple[Resource, ...]:
    props: Mapping[str, Any] = {"policyArn": f"arn:aws:iam::aws:policy/{name}"}
    return (sample("aws:iam/rolePolicyAttachment:RolePolicyAttachment", props),)


READ_FLEET: Final = document(["ec2:DescribeInstances", "autoscaling:DescribeAutoScalingGroups"])
ONE_ROLE: Final = "arn:aws:iam::123456789012:role/node"

RULES: Final = (
    ResourceRule(
        name="no-wildcard-admin",
        types=ACCESS,
        description="No statement allows everything, or everything of a service, on every resource.",
        severity=Severity.CRITICAL,
        reason="Whoever holds such a statement holds the account; a condition on it only says when.",
        fix="List the actions that are needed, and name the resources.",
        check=per_statement(_administrative, "it allows {actions} on every resource"),
        passing=role(READ_FLEET),
        failing=role(document("*")),
    ),
    ResourceRule(
        name="no-identity-service-wide",
        types=ACCESS,
        description="No statement allows all of iam, sts, kms or organizations, on whatever resource.",
        severity=Severity.CRITICAL,
        reason="These services hand out access; all of one of them is a way to all of the account.",
        fix="List the actions that are needed, for example iam:GetRole.",
        check=per_statement(_identity_wide, "it allows {actions}"),
        passing=role(document("iam:GetRole", ONE_ROLE)),
        failing=role(document("iam:*", ONE_ROLE)),
    ),
    ResourceRule(
        name="no-self-promotion",
        types=ACCESS,
        description="No statement allows changing the rights of whatever role, user, group or policy.",
        severity=Severity.CRITICAL,
        reason="A right to write rights is every right, one call later.",
        fix="Name the one role as resource and bound it, or leave access to the platform's own stack.",
        check=per_statement(_on_any(PRINCIPALS, SELF_PROMOTION), "it allows {actions} on every one of them"),
        passing=role(document("iam:PutRolePolicy", ONE_ROLE)),
        failing=role(document("iam:Put*")),
    ),
    ResourceRule(
        name="no-passing-any-role",
        types=ACCESS,
        description="No statement allows iam:PassRole on every role.",
        severity=Severity.HIGH,
        reason="Passing a stronger role to a machine and logging in there is using that role.",
        fix="Name the role that may be passed as resource.",
        check=per_statement(_on_any(("role",), ("iam:PassRole",)), "it allows {actions} on every role"),
        passing=role(document("iam:PassRole", ONE_ROLE)),
        failing=role(document("iam:PassRole")),
    ),
    ResourceRule(
        name="no-assuming-any-role",
        types=ACCESS,
        description="No statement allows sts:AssumeRole on every role.",
        severity=Severity.HIGH,
        reason="The account then is as safe as its most careless trust policy.",
        fix="Name the roles that may be assumed as resources.",
        check=per_statement(_on_any(("role",), ASSUMING), "it allows {actions} on every role"),
        passing=role(document("sts:AssumeRole", ONE_ROLE)),
        failing=role(document("sts:Assume*")),
    ),
    ResourceRule(
        name="no-allow-by-exception",
        types=ACCESS,
        description="No statement allows with NotAction or NotResource.",
        severity=Severity.HIGH,
        reason="All but a list grows with every service that AWS adds.",
        fix="Turn it round: list what is allowed in Action and Resource.",
        check=_by_exception,
        passing=role(READ_FLEET),
        failing=role(document("ec2:DescribeInstances").replace('"Action"', '"NotAction"')),
    ),
    ResourceRule(
        name="no-admin-managed-policy",
        types=ACCESS,
        description="No administrator or power user policy of AWS is attached.",
        severity=Severity.CRITICAL,
        reason="They allow everything, or everything but access, in every service.",
        fix="Attach a policy of your own that lists the needed actions.",
        check=_admin_policies,
        passing=_attached("CloudWatchReadOnlyAccess"),
        failing=_attached("AdministratorAccess"),
    ),
    ResourceRule(
        name="managed-policy-should-be-known",
        types=ACCESS,
        description="Which managed policy is attached is known in a preview.",
        severity=Severity.LOW,
        reason="A preview cannot judge what it cannot see. The update judges it again, before it is attached.",
        fix="Write the policy's ARN as text, or accept that only the update checks it.",
        level=Level.ADVISORY,
        check=_unknown_policies,
        passing=_attached("CloudWatchReadOnlyAccess"),
        failing=(sample("aws:iam/rolePolicyAttachment:RolePolicyAttachment", {"policyArn": UNKNOWN}),),
    ),
)
