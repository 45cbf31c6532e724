"""What is declared, read from the stack's state, so that programs in any Pulumi language count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.model.scaling import GroupSpec

GROUP_TYPE = "trimtab:aws:AutoScalingGroup"


def group_specs(state: Mapping[str, Any]) -> dict[str, GroupSpec]:
    """The scaling groups of an exported stack by name; groups still to be created or on their way out do not count.

    Raises:
        DeclarationError: a group's stored declaration makes no sense.
    """
    resources = (state.get("deployment") or {}).get("resources") or []
    found = [each for each in resources if each.get("type") == GROUP_TYPE and each.get("id") and not each.get("delete")]
    specs = (_spec(each) for each in found)
    return {spec.name: spec for spec in specs}


def _spec(resource: Mapping[str, Any]) -> GroupSpec:
    urn = resource["urn"]
    return GroupSpec.from_wire(urn.rsplit("::", 1)[-1], urn, resource["id"], _known(resource.get("inputs") or {}))


def _known(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs that a group's plan depends on."""
    wanted = ("minSize", "maxSize", "desired", "capacity", "pin", "instanceType", "scaling", "repair")
    return {key: inputs[key] for key in wanted if key in inputs}
