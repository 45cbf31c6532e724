"""The reference part of docs/policies.md, written from the rules so that it cannot say something else.

Run ``python -m trimtab_policies.reference docs/policies.md`` after changing a rule.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from trimtab_policies.catalogue import RULES, THEMES
from trimtab_policies.plain import UNKNOWN
from trimtab_policies.rule import Resource, Rule, StackRule

MARK: Final = "<!-- Everything below is written by `python -m trimtab_policies.reference docs/policies.md`. -->\n"


def reference() -> str:
    """The table of all rules and a section for each, as Markdown."""
    return "\n".join([*_table(), *(line for theme in THEMES for line in _theme(theme))])


def with_reference(text: str) -> str:
    """The page with the part below the mark written anew."""
    return text.partition(MARK)[0] + MARK + "\n" + reference()


def _table() -> Iterator[str]:
    yield f"## The {len(RULES)} rules"
    yield ""
    yield "| rule | severity | level | judges | what |"
    yield "| --- | --- | --- | --- | --- |"
    for rule in RULES:
        cells = (f"[`{rule.name}`](#{rule.name})", rule.severity, rule.level, _scope(rule), rule.description)
        yield f"| {' | '.join(cells)} |"
    yield ""


def _theme(name: str) -> Iterator[str]:
    yield f"## {name}"
    yield ""
    for rule in THEMES[name]:
        yield from _section(rule)


def _section(rule: Rule) -> Iterator[str]:
    yield from (f"### {rule.name}", "", f"{rule.description} {rule.reason}", "", f"Fix: {rule.fix}", "")
    for name, option in rule.options.items():
        default = json.dumps(option.default)
        yield f"- Option `{name}` ({option.schema['type']}, default `{default}`): {option.schema['description']}"
    if rule.options:
        yield ""
    yield from _example("Refused", rule.failing)
    yield from _example("Accepted", rule.passing)


def _example(title: str, resources: Sequence[Resource]) -> Iterator[str]:
    yield from (f"{title}:", "", "```json")
    yield from (f"{each.type} {json.dumps(each.props, default=_unknown)}" for each in resources)
    yield from ("```", "")


def _unknown(value: Any) -> str:
    return "(not known before the update)" if value is UNKNOWN else repr(value)


def _scope(rule: Rule) -> str:
    return "stack" if isinstance(rule, StackRule) else "resource"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_reference(page.read_text(encoding="utf-8")), encoding="utf-8")
