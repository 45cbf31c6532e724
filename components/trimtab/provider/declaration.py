"""What the schema alone can say about a declaration: which properties exist, their types, what a change replaces.

The schema that programs are generated from is the one that inputs are checked against, so the two cannot part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

from trimtab.provider.codec import Unknown

TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A property that is not what it should be, and why."""

    property: str
    reason: str


@cache
def schema_text() -> str:
    """The package schema as served to the engine."""
    return files("trimtab.provider").joinpath("schema.json").read_text(encoding="utf-8")


@cache
def package() -> Mapping[str, Any]:
    """The package schema, parsed."""
    schema: Mapping[str, Any] = json.loads(schema_text())
    return schema


def version() -> str:
    """The provider's version."""
    number: str = package()["version"]
    return number


def resource_schema(token: str) -> Mapping[str, Any]:
    """The schema of one kind; KeyError for an unknown token."""
    resource: Mapping[str, Any] = package()["resources"][token]
    return resource


def replaces_on(token: str) -> frozenset[str]:
    """The inputs whose change needs a new resource."""
    properties = resource_schema(token)["inputProperties"]
    return frozenset(key for key, value in properties.items() if value.get("willReplaceOnChanges"))


def computed(token: str) -> frozenset[str]:
    """The outputs that only AWS can say."""
    return frozenset(resource_schema(token)["properties"])


def failures(token: str, inputs: Mapping[str, Any]) -> Iterator[Failure]:
    """Everything about the inputs' shape that the schema forbids."""
    schema = resource_schema(token)
    properties = schema["inputProperties"]
    for key in schema["requiredInputs"]:
        if inputs.get(key) is None:
            yield Failure(key, "is required")
    for key, value in inputs.items():
        if key not in properties:
            near = get_close_matches(key, properties, n=1)
            yield Failure(key, f"unknown property{f'; did you mean {near[0]!r}?' if near else ''}")
        elif value is not None and not fits(value, properties[key]):
            yield Failure(key, f"expected {properties[key].get('type', 'object')}, got {type(value).__name__}")


def fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """True when a value has the schema's type; unknowns fit everywhere."""
    if isinstance(value, Unknown) or "$ref" in schema:
        return True  # referenced types are read field by field, by the model
    expected: str = schema["type"]
    if isinstance(value, bool) and expected != "boolean":
        return False
    return isinstance(value, TYPES[expected]) and all(fits(item, inner) for item, inner in parts(value, schema))


def parts(value: Any, schema: Mapping[str, Any]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """The items of a list or mapping, each with the schema that it must fit."""
    if isinstance(value, list):
        yield from ((item, schema["items"]) for item in value)
    elif isinstance(value, dict) and "additionalProperties" in schema:
        yield from ((item, schema["additionalProperties"]) for item in value.values())
