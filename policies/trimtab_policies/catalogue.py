"""Every rule of the pack, by theme; a theme is a module with `RULES`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trimtab_policies import access_documents, capacity, nodes, permissions, roles
from trimtab_policies.rule import Rule

THEMES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "Documents": access_documents.RULES,
    "Permissions": permissions.RULES,
    "Roles": roles.RULES,
    "Capacity and cost": capacity.RULES,
    "Nodes": nodes.RULES,
}
RULES: Final = tuple(rule for rules in THEMES.values() for rule in rules)
