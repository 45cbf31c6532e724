"""IAM documents: JSON text or objects in, statements out; whatever AWS might read differently is refused.

A scanner that guesses what a malformed document means can be talked past. Element names and effects must be spelled as
AWS documents them, names may not repeat, and actions must have an action's shape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final

ELEMENTS: Final = frozenset(
    {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Principal", "NotPrincipal", "Condition"}
)
ACTION: Final = re.compile(r"[*?]+|[A-Za-z0-9*?-]+:[A-Za-z0-9*?]+", re.ASCII)
WILD: Final = re.compile(r"[*?]+")
NOBODY: Final = "7d1f-nobody-4c90"


ABOUT_WHAT: Final = ("Resource", "NotResource")
ABOUT_WHOM: Final = ("Principal", "NotPrincipal")


class Kind(Enum):
    """What a document is for: its statements say whom or what they are about, and never both."""

    PERMISSIONS = (ABOUT_WHAT, ABOUT_WHOM)
    TRUST = (ABOUT_WHOM, ABOUT_WHAT)


class DocumentError(ValueError):
    """The document is not one that AWS and this pack read alike; the message never quotes it."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, every element as a tuple; `position` counts from one."""

    position: int
    allows: bool
    actions: tuple[str, ...]
    not_actions: tuple[str, ...]
    resources: tuple[str, ...]
    not_resources: tuple[str, ...]
    principals: tuple[str, ...]
    not_principals: tuple[str, ...]


def parse(document: Any, kind: Kind) -> tuple[Statement, ...]:
    """The statements of a document.

    Raises:
        DocumentError: it is not valid.
    """
    return _parse_text(document, kind) if isinstance(document, str) else _parse_object(document, kind)


@lru_cache(maxsize=512)
def _parse_text(text: str, kind: Kind) -> tuple[Statement, ...]:
    """Kept, because every rule about access asks for the same few documents again."""
    return _parse_object(_json(text), kind)


def _parse_object(content: Any, kind: Kind) -> tuple[Statement, ...]:
    if not isinstance(content, dict):
        raise DocumentError("the document is not a JSON object")
    statements = content.get("Statement")
    if isinstance(statements, dict):
        statements = [statements]
    if not isinstance(statements, list) or not statements:
        raise DocumentError("the document has no Statement")
    return tuple(_statement(each, position, kind) for position, each in enumerate(statements, start=1))


def matches(pattern: str, text: str) -> bool:
    """Whether an IAM pattern covers a text, without regard to case."""
    return fnmatchcase(text.lower(), pattern.lower().replace("[", "[[]"))


def is_wild(text: str) -> bool:
    """Whether a text consists of wildcards only."""
    return WILD.fullmatch(text) is not None


def covers_service(action: str) -> bool:
    """Whether an action stands for everything that a service, or every service, can do."""
    return is_wild(action.rpartition(":")[2])


def covers_everything(resource: str) -> bool:
    """Whether a resource pattern names nothing in particular, as ``*`` or ``arn:aws:iam::123456789012:*``."""
    return is_wild(_within_account(resource))


def covers_any(resource: str, kinds: Iterable[str]) -> bool:
    """Whether a resource pattern names none in particular of the kinds: it covers even one that nobody thought of."""
    return any(matches(_within_account(resource), f"{kind}/{NOBODY}") for kind in kinds)


def _within_account(resource: str) -> str:
    return resource.split(":", 5)[-1]


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (json.JSONDecodeError, RecursionError):
        raise DocumentError("the document is not valid JSON") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise DocumentError("a name appears twice in one object")
    return dict(pairs)


def _statement(body: Any, position: int, kind: Kind) -> Statement:
    at = f"statement {position}"
    if not isinstance(body, dict):
        raise DocumentError(f"{at} is not an object")
    if not set(body) <= ELEMENTS:
        raise DocumentError(f"{at} has an element that is not one of {', '.join(sorted(ELEMENTS))}")
    if body.get("Effect") not in ("Allow", "Deny"):
        raise DocumentError(f"{at} has no Effect of Allow or Deny")
    needed, foreign = kind.value
    for one, other in (("Action", "NotAction"), needed):
        if (one in body) == (other in body):
            raise DocumentError(f"{at} must have {one} or {other}, and not both")
    if found := [name for name in foreign if name in body]:
        raise DocumentError(f"{at} may not have {found[0]} in this kind of document")
    actions, not_actions = (_texts(body.get(name, []), f"{at}, {name}") for name in ("Action", "NotAction"))
    if any(ACTION.fullmatch(action) is None for action in actions + not_actions):
        raise DocumentError(f"{at} has an action that is not of the form service:Action")
    return Statement(
        position,
        body["Effect"] == "Allow",
        actions,
        not_actions,
        _texts(body.get("Resource", []), f"{at}, Resource"),
        _texts(body.get("NotResource", []), f"{at}, NotResource"),
        _principals(body.get("Principal", []), f"{at}, Principal"),
        _principals(body.get("NotPrincipal", []), f"{at}, NotPrincipal"),
    )


def _texts(value: Any, where: str) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str) and item for item in items):
        raise DocumentError(f"{where} must be a text or a list of texts")
    return tuple(items)


def _principals(value: Any, where: str) -> tuple[str, ...]:
    groups = list(value.values()) if isinstance(value, dict) else [value]
    return tuple(text for group in groups for text in _texts(group, where))
