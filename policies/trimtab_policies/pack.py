"""The one door to the policy SDK: carries resources to the rules and findings back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pulumi_policy as sdk

from trimtab_policies.catalogue import RULES
from trimtab_policies.plain import plain
from trimtab_policies.rule import Finding, Resource, ResourceRule, Rule, StackRule, run

NAME: Final = "trimtab"
ONCE_A_RUN: Final = "pulumi:pulumi:Stack"


def resource_of(args: Any, references: dict[str, tuple[str, ...]] | None = None) -> Resource:
    """A rule's view of one of the SDK's resources."""
    return Resource(args.resource_type, args.name, args.urn, plain(args.props), references or {})


def references_of(resource: Any) -> dict[str, tuple[str, ...]]:
    """Property by property, the URNs of the resources that it was made from."""
    return {key: tuple(each.urn for each in found) for key, found in resource.property_dependencies.items()}


def policy_of(rule: Rule) -> sdk.Policy:
    """A rule as the SDK wants it."""
    common: dict[str, Any] = {
        "name": rule.name,
        "description": rule.description,
        "enforcement_level": sdk.EnforcementLevel(rule.level.value),
        "severity": sdk.Severity(rule.severity.value),
        "remediation_steps": rule.fix,
        "config_schema": _schema(rule),
    }
    if isinstance(rule, StackRule):
        return sdk.StackValidationPolicy(validate=_stack_validation(rule), **common)
    if isinstance(rule, ResourceRule):
        return sdk.ResourceValidationPolicy(validate=_resource_validation(rule), **common)
    raise TypeError(f"{rule.name} is of no kind that the SDK knows")


def serve() -> None:
    """Serve the pack until the engine ends; never returns."""
    sdk.PolicyPack(NAME, [policy_of(rule) for rule in RULES])


def _schema(rule: Rule) -> sdk.PolicyConfigSchema | None:
    if not rule.options:
        return None
    return sdk.PolicyConfigSchema(
        {name: {**option.schema, "default": option.default} for name, option in rule.options.items()}
    )


def _resource_validation(rule: ResourceRule) -> Any:
    def validate(args: Any, report: Any) -> None:
        if args.resource_type not in (ONCE_A_RUN, *rule.types):
            return
        config = plain(args.get_config())
        findings = rule.misspelled(config) if args.resource_type == ONCE_A_RUN else []
        _report(rule, [*findings, *run(rule, [resource_of(args)], config)], report)

    return validate


def _stack_validation(rule: StackRule) -> Any:
    def validate(args: Any, report: Any) -> None:
        resources = [resource_of(each, references_of(each)) for each in args.resources]
        config = plain(args.get_config())
        _report(rule, [*rule.misspelled(config), *run(rule, resources, config)], report)

    return validate


def _report(rule: Rule, findings: Iterable[Finding], report: Any) -> None:
    for finding in findings:
        report(rule.message(finding), finding.urn or None)
