"""Reading untrusted mappings field by field: each refusal names the property and says what was expected.

Declarations arrive as JSON from any Pulumi language, so nothing about their shape may be assumed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any

from trimtab.model.errors import DeclarationError

MOST_SECONDS = 10 * 365 * 24 * 3600


class Fields:
    """The fields of one mapping at `path`; `done()` refuses whatever was not asked for."""

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, Mapping):
            raise DeclarationError(path, f"expected a mapping, got {_shown(value)}")
        self._value: Mapping[Any, Any] = value
        self._path = path
        self._seen: set[str] = set()

    def at(self, key: str) -> str:
        """The full path of a field."""
        return f"{self._path}.{key}" if self._path else key

    def raw(self, key: str) -> object:
        """The field as it came, None where it is absent."""
        self._seen.add(key)
        return self._value.get(key)

    def refuse(self, key: str, expected: str) -> DeclarationError:
        """The error for a field that is not what it should be."""
        return DeclarationError(self.at(key), f"expected {expected}, got {_shown(self._value.get(key))}")

    def text(self, key: str, default: str | None = None) -> str:
        """A non-empty string; required unless a default is given."""
        value = self.raw(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not value:
            raise self.refuse(key, "text")
        return value

    def optional_text(self, key: str) -> str | None:
        """A non-empty string or None."""
        return None if self.raw(key) is None else self.text(key)

    def flag(self, key: str, *, default: bool) -> bool:
        """A boolean."""
        value = self.raw(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.refuse(key, "true or false")
        return value

    def number(self, key: str, default: float | None = None, *, least: float = -math.inf) -> float:
        """A finite number, at least `least`."""
        value = default if self.raw(key) is None else self._value[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
            raise self.refuse(key, "a number")
        if value < least:
            raise self.refuse(key, f"at least {least:g}")
        return float(value)

    def optional_number(self, key: str, *, least: float = -math.inf) -> float | None:
        """A finite number or None."""
        return None if self.raw(key) is None else self.number(key, least=least)

    def whole(self, key: str, default: int | None = None, *, least: int = 0) -> int:
        """A whole number, at least `least`."""
        value = self.number(key, default, least=least)
        if value != int(value):
            raise self.refuse(key, "a whole number")
        return int(value)

    def optional_whole(self, key: str, *, least: int = 0) -> int | None:
        """A whole number or None."""
        return None if self.raw(key) is None else self.whole(key, least=least)

    def seconds(self, key: str, default: timedelta) -> timedelta:
        """A duration written as a number of seconds."""
        value = self.number(key, default.total_seconds(), least=0)
        if value > MOST_SECONDS:
            raise self.refuse(key, f"at most {MOST_SECONDS} seconds")
        return timedelta(seconds=value)

    def instant(self, key: str) -> datetime:
        """A point in time in ISO 8601; without an offset it is UTC."""
        try:
            value = datetime.fromisoformat(self.text(key))
        except ValueError as error:
            raise self.refuse(key, "a time such as 2030-01-31T18:00:00Z") from error
        return value if value.tzinfo else value.replace(tzinfo=UTC)

    def each(self, key: str) -> Iterator[tuple[object, str]]:
        """The items of a list with their paths; an absent list is empty."""
        value = self.raw(key)
        if value is None:
            return
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self.refuse(key, "a list")
        for index, item in enumerate(value):
            yield item, f"{self.at(key)}[{index}]"

    def done(self) -> None:
        """Refuse fields that nobody asked for, with the nearest known name.

        Raises:
            DeclarationError: an unknown field is present.
        """
        for key in self._value:
            if key not in self._seen:
                near = get_close_matches(str(key), self._seen, n=1)
                known = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(self._seen))}"
                raise DeclarationError(self.at(str(key)), f"unknown property; {known}")


def _is_finite(value: float) -> bool:
    """True for a number that a float can hold; JSON and TOML know whole numbers of any length."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _shown(value: object) -> str:
    """A value as an error may show it: its kind, and the value itself only where it is short and plain."""
    if value is None:
        return "nothing"
    if isinstance(value, bool | int | float):
        return repr(value)
    return f"{value!r}" if isinstance(value, str) and len(value) <= 40 else type(value).__name__
