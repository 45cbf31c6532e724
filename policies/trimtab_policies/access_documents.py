"""Access can be read before it is granted: documents are known, valid, and trust somebody in particular."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from trimtab_policies.adapters import ACCESS, claim, raw_documents, statements
from trimtab_policies.documents import DocumentError, Kind, parse
from trimtab_policies.plain import UNKNOWN, has_unknown
from trimtab_policies.rule import Config, Finding, Resource, ResourceRule, Severity, sample

ROLE: Final = "trimtab:aws:Role"
KNOWN_FIX: Final = "Build the document from names and ARNs that the program knows, not from outputs of other resources."


def _unknown(resource: Resource, _config: Config) -> Iterator[Finding]:
    for where, document, _ in raw_documents(resource):
        if has_unknown(document):
            yield Finding(where, "the access document is not known before the update")
    if claim(resource) is UNKNOWN:
        yield Finding("tags", "the tag trimtab:access is not known before the update", "Write the tag as text.")


def _invalid(resource: Resource, _config: Config) -> Iterator[Finding]:
    for where, document, kind in raw_documents(resource):
        if has_unknown(document):
            continue
        try:
            parse(document, kind)
        except DocumentError as error:
            yield Finding(where, str(error))


def _open_trust(resource: Resource, _config: Config) -> Iterator[Finding]:
    for where, statement in statements(resource, Kind.TRUST):
        if statement.not_principals:
            yield Finding(where, "it trusts everybody but a list")
        elif any("*" in principal for principal in statement.principals):
            yield Finding(where, "it trusts a principal with a wildcard in it")


def trusting(principal: Any) -> tuple[Resource, ...]:
    """A role that a principal may assume, for examples."""
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": principal}
    return (sample(ROLE, {"assumeRolePolicy": json.dumps({"Version": "2012-10-17", "Statement": [statement]})}),)


NODES: Final = trusting({"Service": "ec2.amazonaws.com"})

RULES: Final = (
    ResourceRule(
        name="access-document-must-be-known",
        types=ACCESS,
        description="Access documents, and the tag that says what a role is for, are known in a preview.",
        severity=Severity.HIGH,
        reason="A reviewer approves what the preview shows; access that appears only in the update was seen by nobody.",
        fix=KNOWN_FIX,
        check=_unknown,
        passing=NODES,
        failing=(sample(ROLE, {"policy": UNKNOWN}),),
    ),
    ResourceRule(
        name="access-document-must-be-valid",
        types=ACCESS,
        description="Access documents are valid, and spelled as AWS documents them.",
        severity=Severity.HIGH,
        reason="A document that two readers understand differently can be checked as one thing and work as another.",
        fix="Correct the named element; the IAM JSON policy reference lists them all.",
        check=_invalid,
        passing=NODES,
        failing=(sample(ROLE, {"policy": '{"Statement": [{"effect": "Allow"}]}'}),),
    ),
    ResourceRule(
        name="no-open-trust",
        types=ACCESS,
        description="No role can be assumed by everybody.",
        severity=Severity.CRITICAL,
        reason="A principal with a wildcard is every AWS account there is, whatever the conditions.",
        fix="Name the principals: accounts, roles or services.",
        check=_open_trust,
        passing=NODES,
        failing=trusting("*"),
    ),
)
