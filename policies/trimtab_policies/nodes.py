"""Nodes keep their secrets: the metadata service wants a session token, and disks are encrypted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trimtab_policies.adapters import TEMPLATES
from trimtab_policies.plain import reach
from trimtab_policies.rule import Config, Finding, Resource, ResourceRule, Severity, sample

TRIMTAB: Final = "trimtab:aws:LaunchTemplate"
CLASSIC: Final = "aws:ec2/launchTemplate:LaunchTemplate"
TRUE: Final = (True, "true")


def _tokens(template: Resource, _config: Config) -> Iterator[Finding]:
    shape = TEMPLATES[template.type]
    value = next((each for _, each in reach(template.props, shape.tokens)), shape.tokens_when_absent)
    if value != "required":
        yield Finding(shape.tokens, "the metadata service answers without a session token (IMDSv1)")


def _encryption(template: Resource, _config: Config) -> Iterator[Finding]:
    shape = TEMPLATES[template.type]
    volumes: list[tuple[str, Any]] = list(_volumes(template, shape.encrypted))
    if not volumes and shape.encrypted_when_absent not in TRUE:
        yield Finding(shape.encrypted, "no volume is declared, so the image decides about encryption")
    for where, value in volumes:
        if value not in TRUE:
            yield Finding(where, "the volume is not encrypted")


def _volumes(template: Resource, path: str) -> Iterator[tuple[str, Any]]:
    """Each volume's encryption; a volume that does not say is reported as None."""
    owner, _, leaf = path.rpartition(".")
    if not owner:
        yield from reach(template.props, path)
        return
    for where, volume in reach(template.props, owner):
        yield f"{where}.{leaf}", volume.get(leaf) if isinstance(volume, dict) else volume


def _classic(**props: Any) -> tuple[Resource, ...]:
    return (sample(CLASSIC, props),)


RULES: Final = (
    ResourceRule(
        name="imdsv2-required",
        types=TEMPLATES,
        description="Launch templates require IMDSv2.",
        severity=Severity.HIGH,
        reason="Without session tokens, one forged request from a job gives away the node's credentials.",
        fix="Set metadataHttpTokens (metadataOptions.httpTokens in pulumi-aws) to required.",
        check=_tokens,
        passing=_classic(metadataOptions={"httpTokens": "required"}),
        failing=(sample(TRIMTAB, {"metadataHttpTokens": "optional"}),),
    ),
    ResourceRule(
        name="node-volumes-encrypted",
        types=TEMPLATES,
        description="Launch templates encrypt every volume.",
        severity=Severity.HIGH,
        reason="Weights and data sets stay on disks that outlive the node.",
        fix="Set encrypted to true (blockDeviceMappings[].ebs.encrypted in pulumi-aws).",
        check=_encryption,
        passing=_classic(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": {"encrypted": "true"}}]),
        failing=(sample(TRIMTAB, {"encrypted": False}),),
    ),
)
