"""Turns what the policy SDK hands over into plain values.

The SDK's properties look like lists and dictionaries and are neither, raise on values that a preview cannot know, and
carry every number as a float. A rule written against them passes silently where it should refuse, so no rule ever sees
them: it sees dictionaries, lists, strings, numbers and `UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from pulumi_policy import proxy


class Unknown(Enum):
    """The type of `UNKNOWN`, so that a type checker can tell it from a value."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN
SENTINELS: Final = tuple(value for name, value in vars(proxy).items() if name.startswith("UNKNOWN_"))


def plain(value: Any) -> Any:
    """The plain form of a property: unknown parts, also inside text, and opaque objects become `UNKNOWN`."""
    if isinstance(value, str):
        return UNKNOWN if any(sentinel in value for sentinel in SENTINELS) else value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return int(value) if float(value).is_integer() else float(value)
    if isinstance(value, Mapping):
        return {str(key): plain(_item(value, key)) for key in value}
    if isinstance(value, Sequence):
        return [plain(_item(value, index)) for index in range(len(value))]
    return UNKNOWN


def has_unknown(value: Any) -> bool:
    """Whether a plain value is unknown in any part."""
    if isinstance(value, dict):
        return any(has_unknown(each) for each in value.values())
    if isinstance(value, list):
        return any(has_unknown(each) for each in value)
    return value is UNKNOWN


def reach(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every value that a dotted path leads to, with where it is; `*` stands for each item of a list.

    Absent values are left out. An unknown on the way is what the path leads to.
    """
    yield from _reach(value, tuple(path.split(".")), "")


def _reach(value: Any, steps: tuple[str, ...], where: str) -> Iterator[tuple[str, Any]]:
    if value is UNKNOWN or not steps:
        if value is not None:
            yield where, value
        return
    step, rest = steps[0], steps[1:]
    if step == "*":
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            yield from _reach(item, rest, f"{where}[{index}]")
    elif isinstance(value, dict):
        yield from _reach(value.get(step), rest, f"{where}.{step}" if where else step)


def _item(container: Any, key: Any) -> Any:
    try:
        return container[key]
    except proxy.UnknownValueError:
        return UNKNOWN
