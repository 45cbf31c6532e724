"""What a rule is: a pure function with everything that a person needs to know about it.

Rules know nothing of the policy SDK. They are given plain values and answer with findings; `pack` carries both across.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Config = Mapping[str, Any]


class Severity(StrEnum):
    """How bad a violation is."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Level(StrEnum):
    """What a violation does to an update unless the policy configuration says otherwise."""

    ADVISORY = "advisory"
    MANDATORY = "mandatory"


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource as rules see it.

    Attributes:
        props: plain values, see `plain`.
        references: for stack rules, the URNs of the resources that a property was made from.
    """

    type: str
    name: str
    urn: str
    props: Mapping[str, Any]
    references: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation: where it is, what is wrong and how to put it right.

    Texts never hold property values, which may be secret: only numbers, and words of a shape that no secret has.

    Attributes:
        fix: overrides the rule's own when something more exact can be said.
        urn: for stack rules, the resource meant.
    """

    where: str
    what: str
    fix: str = ""
    urn: str = ""


@dataclass(frozen=True, slots=True)
class Option:
    """One configuration property of a rule: its default and the JSON schema of its value."""

    default: Any
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule's metadata; `passing` and `failing` are examples that tests and the reference both use."""

    name: str
    description: str
    severity: Severity
    reason: str
    fix: str
    passing: tuple[Resource, ...]
    failing: tuple[Resource, ...]
    level: Level = Level.MANDATORY
    options: Mapping[str, Option] = field(default_factory=dict)

    def config(self, given: Config) -> Config:
        """The given configuration over the defaults."""
        return {**{name: option.default for name, option in self.options.items()}, **given}

    def misspelled(self, given: Config) -> list[Finding]:
        """A finding for each given option that the rule has not; the engine itself lets them pass."""
        return [
            Finding(
                "the policy configuration", f"{name} is no option of {self.name}", "Correct its name, or remove it."
            )
            for name in given
            if name not in self.options
        ]

    def message(self, finding: Finding) -> str:
        """What the person who meets the finding reads."""
        return f"{finding.where}: {finding.what}. Fix: {finding.fix or self.fix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRule(Rule):
    """Judges one resource from its inputs, before the resource is touched.

    Attributes:
        types: the resource types that the check has anything to say about; others are not even converted.
    """

    types: Collection[str]
    check: Callable[[Resource, Config], Iterable[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRule(Rule):
    """Judges all resources together, at the end of a preview or an update."""

    check: Callable[[Sequence[Resource], Config], Iterable[Finding]]


def sample(kind: str, props: Mapping[str, Any], name: str = "example", **references: str) -> Resource:
    """A resource for an example; `references` name the samples that its properties were made from."""
    return Resource(kind, name, sample_urn(kind, name), props, {key: (urn,) for key, urn in references.items()})


def sample_urn(kind: str, name: str = "example") -> str:
    """The URN of a sample."""
    return f"urn:pulumi:dev::fleet::{kind}::{name}"


def run(rule: Rule, resources: Sequence[Resource], config: Config) -> list[Finding]:
    """All findings of one rule, whichever its scope."""
    settled = rule.config(config)
    if isinstance(rule, StackRule):
        return list(rule.check(resources, settled))
    if isinstance(rule, ResourceRule):
        judged = (resource for resource in resources if resource.type in rule.types)
        return [finding for resource in judged for finding in rule.check(resource, settled)]
    raise TypeError(f"{type(rule).__name__} has no check")
