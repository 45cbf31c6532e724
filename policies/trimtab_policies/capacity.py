"""Groups and stacks stay below their ceilings, counted at the largest size that they may ever have.

The reconciler moves a group between its bounds without asking, so what must be approved is the upper bound. A type
whose price nobody has written down is not free: it is refused until somebody writes it down.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trimtab.model.cost import instance_types
from trimtab_policies.adapters import GROUPS, TEMPLATES
from trimtab_policies.plain import UNKNOWN, reach
from trimtab_policies.rule import Config, Finding, Option, Resource, ResourceRule, Rule, Severity, StackRule, sample

GROUP: Final = "trimtab:aws:AutoScalingGroup"
TEMPLATE: Final = "trimtab:aws:LaunchTemplate"
TYPE_NAME: Final = re.compile(r"[a-z0-9-]{1,20}\.[a-z0-9-]{1,20}")
UNPRICED_FIX: Final = (
    "Set the group's instance type to one with a known price, or add it to `instanceTypes` in the policy configuration "
    'as {"TYPE": {"gpus": 8, "usdPerHour": 55.04}}.'
)


@dataclass(frozen=True, slots=True)
class Node:
    """What one node of a type has and costs; USD per hour, on demand."""

    gpus: int
    usd_per_hour: float


def node_of(instance_type: Any, config: Config) -> Node | None:
    """The node of a type, from the policy configuration or else the project's price table; None if neither has it."""
    own = config["instanceTypes"].get(instance_type) if isinstance(instance_type, str) else None
    if own is not None:
        return Node(int(own["gpus"]), float(own["usdPerHour"]))
    known = instance_types().get(instance_type) if isinstance(instance_type, str) else None
    return None if known is None else Node(known.gpus, known.on_demand_usd_per_hour)


def most_nodes(group: Resource) -> int | None:
    """The group's upper bound, or None when it is unknown or no number."""
    value = next((each for _, each in reach(group.props, GROUPS[group.type].most)), None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def own_types(group: Resource) -> list[Any]:
    """The instance types that a group names itself."""
    return [each for path in GROUPS[group.type].types for _, each in reach(group.props, path)]


def templates_of(group: Resource, resources: Sequence[Resource]) -> list[Resource]:
    """The launch templates of this stack that a group starts its nodes from."""
    paths = GROUPS[group.type].templates
    urns = {urn for path in paths for urn in group.references.get(path.partition(".")[0], ())}
    ids = {value for path in paths for _, value in reach(group.props, path) if isinstance(value, str)}
    return [each for each in resources if each.type in TEMPLATES and (each.urn in urns or each.props.get("id") in ids)]


def dearest(types: Sequence[Any], config: Config) -> Node | None:
    """The worst that one node of these types can be; None if any of them, or all, are unknown."""
    nodes = [node_of(each, config) for each in types]
    if not nodes or None in nodes:
        return None
    known = [node for node in nodes if node is not None]
    return Node(max(node.gpus for node in known), max(node.usd_per_hour for node in known))


def _named(types: Sequence[Any]) -> str:
    fit = sorted({each for each in types if isinstance(each, str) and TYPE_NAME.fullmatch(each)})
    return " ".join(["instance type", *fit[:3]])


def _size(group: Resource, config: Config) -> Iterator[Finding]:
    most = most_nodes(group)
    if most is None:
        yield Finding("maxSize", "the upper bound is not a known number", "Write maxSize as a number.")
    elif most > config["maxNodes"]:
        yield Finding("maxSize", f"up to {most} nodes, and the ceiling is {config['maxNodes']} a group")


def _price(group: Resource, config: Config) -> Iterator[Finding]:
    types, most = own_types(group), most_nodes(group)
    if most is None or (not types and not GROUPS[group.type].declares):
        return
    node = dearest(types, config)
    if node is None:
        yield Finding("instanceType", f"{_named(types)} has no known price", UNPRICED_FIX)
    elif (usd := node.usd_per_hour * most) > config["maxUsdPerHour"]:
        ceiling = f"{config['maxUsdPerHour']:.2f}"
        yield Finding("maxSize", f"up to {usd:.2f} USD an hour at {most} nodes, and the ceiling is {ceiling} a group")


@dataclass(frozen=True, slots=True)
class Total:
    """Groups at their upper bounds, together; `unpriced` could not be counted."""

    gpus: int
    usd_per_hour: float
    unpriced: tuple[Resource, ...]


def total(resources: Sequence[Resource], config: Config) -> Total:
    """What all groups of a stack have and cost at their upper bounds."""
    gpus, usd, unpriced = 0, 0.0, []
    for group in (each for each in resources if each.type in GROUPS):
        types = own_types(group) or [each.props.get("instanceType") for each in templates_of(group, resources)]
        node, most = dearest(types, config), most_nodes(group)
        if node is None or most is None:
            unpriced.append(group)
        else:
            gpus, usd = gpus + node.gpus * most, usd + node.usd_per_hour * most
    return Total(gpus, usd, tuple(unpriced))


def _stack_gpus(resources: Sequence[Resource], config: Config) -> Iterator[Finding]:
    found = total(resources, config)
    yield from _uncounted(found)
    if found.gpus > config["maxGpus"]:
        yield Finding("the stack", f"up to {found.gpus} GPUs, and the ceiling is {config['maxGpus']}")


def _stack_price(resources: Sequence[Resource], config: Config) -> Iterator[Finding]:
    found = total(resources, config)
    yield from _uncounted(found)
    if found.usd_per_hour > config["maxUsdPerHour"]:
        ceiling = f"{config['maxUsdPerHour']:.2f}"
        yield Finding("the stack", f"up to {found.usd_per_hour:.2f} USD an hour, and the ceiling is {ceiling}")


def _uncounted(found: Total) -> Iterator[Finding]:
    """Groups that a resource rule has not refused already."""
    for group in found.unpriced:
        if not GROUPS[group.type].declares:
            yield Finding("the group", "its instance type has no known price", UNPRICED_FIX, group.urn)


def _contradictions(resources: Sequence[Resource], _config: Config) -> Iterator[Finding]:
    for group in (each for each in resources if each.type in GROUPS and GROUPS[each.type].declares):
        for template in templates_of(group, resources):
            actual = template.props.get("instanceType")
            if actual not in (UNKNOWN, *own_types(group)):
                yield Finding("instanceType", "it differs from the launch template's", urn=group.urn)


def _number(name: str, default: float, description: str) -> dict[str, Option]:
    return {name: Option(default, {"type": "number", "minimum": 0, "description": description})}


PRICES: Final = {
    "instanceTypes": Option(
        {},
        {
            "type": "object",
            "description": "GPUs and price of instance types that the project's table lacks or has wrong.",
            "additionalProperties": {
                "type": "object",
                "properties": {"gpus": {"type": "integer"}, "usdPerHour": {"type": "number"}},
                "required": ["gpus", "usdPerHour"],
            },
        },
    )
}


def _group(instance_type: str, most: int, name: str = "train", **references: str) -> Resource:
    props = {"minSize": 0, "maxSize": most, "instanceType": instance_type}
    return sample(GROUP, props, name, **references)


def _templated(declared: str, actual: str) -> tuple[Resource, ...]:
    template = sample(TEMPLATE, {"imageId": "ami-1", "instanceType": actual})
    return (template, _group(declared, 1, launchTemplateId=template.urn))


RULES: Final[tuple[Rule, ...]] = (
    ResourceRule(
        name="group-size-ceiling",
        types=GROUPS,
        description="A group's upper bound is at most so many nodes.",
        severity=Severity.HIGH,
        reason="A broken signal grows a group to its upper bound, at night.",
        fix="Lower maxSize, or raise `maxNodes` in the policy configuration.",
        options=_number("maxNodes", 64, "Nodes per group."),
        check=_size,
        passing=(_group("g5.xlarge", 8),),
        failing=(_group("g5.xlarge", 65),),
    ),
    ResourceRule(
        name="group-price-ceiling",
        types=GROUPS,
        description="A group at its upper bound costs at most so much an hour; a type without a price is refused.",
        severity=Severity.HIGH,
        reason="Price is what a size means; 64 small nodes and 64 large ones differ by a factor of hundreds.",
        fix="Lower maxSize, choose a cheaper type, or raise `maxUsdPerHour` in the policy configuration.",
        options={**_number("maxUsdPerHour", 1000.0, "USD per hour and group, on demand."), **PRICES},
        check=_price,
        passing=(_group("p4d.24xlarge", 4),),
        failing=(_group("p4d.24xlarge", 64),),
    ),
    StackRule(
        name="stack-gpu-ceiling",
        description="All groups of a stack at their upper bounds have at most so many GPUs.",
        severity=Severity.HIGH,
        reason="Groups that each keep to their ceiling can together exceed the account's quota.",
        fix="Lower a group's maxSize, or raise `maxGpus` in the policy configuration.",
        options={**_number("maxGpus", 512, "GPUs per stack."), **PRICES},
        check=_stack_gpus,
        passing=(_group("p4d.24xlarge", 8),),
        failing=(_group("p4d.24xlarge", 33), _group("p4d.24xlarge", 32, "batch")),
    ),
    StackRule(
        name="stack-price-ceiling",
        description="All groups of a stack at their upper bounds cost at most so much an hour.",
        severity=Severity.HIGH,
        reason="The bill is for the sum.",
        fix="Lower a group's maxSize, or raise `maxUsdPerHour` in the policy configuration.",
        options={**_number("maxUsdPerHour", 4000.0, "USD per hour and stack, on demand."), **PRICES},
        check=_stack_price,
        passing=(_group("p4d.24xlarge", 8),),
        failing=tuple(_group("p4d.24xlarge", 64, f"group-{number}") for number in range(3)),
    ),
    StackRule(
        name="instance-type-must-match-template",
        description="The instance type that a group is priced by is the one that its launch template starts.",
        severity=Severity.HIGH,
        reason="Otherwise a ceiling is kept on paper and broken in AWS.",
        fix="Give the group the launch template's instance type; the component ScalingGroup does it for you.",
        check=_contradictions,
        passing=_templated("g5.xlarge", "g5.xlarge"),
        failing=_templated("g5.xlarge", "p5.48xlarge"),
    ),
)
