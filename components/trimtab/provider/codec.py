"""Property values on the wire, as plain Python values and back.

The experimental base's own PropertyValue rejects whole numbers, cannot be hashed and loses unknowns, so the provider
reads the protocol's structs itself. Two marks stand for what JSON cannot say: `UNKNOWN` and `Secret`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import struct_pb2

from trimtab.provider import protocol
from trimtab.provider.protocol import OUTPUT, SECRET, SIGNATURE


class Unknown:
    """A value that the engine does not know yet; never true, never equal to a known value."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __bool__(self) -> bool:
        return False


UNKNOWN: Final = Unknown()


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A value that must stay encrypted in the state; it never shows itself."""

    value: Any

    def __repr__(self) -> str:
        return "Secret(...)"


def decode(struct: struct_pb2.Struct) -> dict[str, Any]:
    """A struct as a dict; whole floats become ints, unknowns and secrets their marks."""
    return {key: _decode(value) for key, value in struct.fields.items()}


def _decode(value: struct_pb2.Value) -> Any:
    match value.WhichOneof("kind"):
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() else number
        case "string_value":
            return UNKNOWN if value.string_value == protocol.UNKNOWN else value.string_value
        case "bool_value":
            return value.bool_value
        case "list_value":
            return [_decode(item) for item in value.list_value.values]
        case "struct_value":
            return _marked(decode(value.struct_value))
    return None


def _marked(mapping: dict[str, Any]) -> Any:
    if mapping.get(SIGNATURE) == SECRET:
        return Secret(mapping.get("value"))
    if mapping.get(SIGNATURE) == OUTPUT:
        inner = mapping.get("value", UNKNOWN)
        return Secret(inner) if mapping.get("secret") else inner
    return mapping


def encode(mapping: Mapping[str, Any]) -> struct_pb2.Struct:
    """A dict as a struct; the inverse of decode."""
    return struct_pb2.Struct(fields={key: _encode(value) for key, value in mapping.items()})


def _encode(value: Any) -> struct_pb2.Value:
    match value:
        case None:
            return struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
        case Unknown():
            return struct_pb2.Value(string_value=protocol.UNKNOWN)
        case Secret(inner):
            return _encode({SIGNATURE: SECRET, "value": inner})
        case bool():
            return struct_pb2.Value(bool_value=value)
        case int() | float():
            return struct_pb2.Value(number_value=value)
        case str():
            return struct_pb2.Value(string_value=value)
        case Mapping():
            return struct_pb2.Value(struct_value=encode(value))
        case list() | tuple():
            return struct_pb2.Value(list_value=struct_pb2.ListValue(values=[_encode(item) for item in value]))
    raise TypeError(f"no wire form for {type(value).__name__}")


def reveal(value: Any) -> Any:
    """The value without secret marks, all the way down."""
    match value:
        case Secret(inner):
            return reveal(inner)
        case Mapping():
            return {key: reveal(item) for key, item in value.items()}
        case list():
            return [reveal(item) for item in value]
    return value


def has_unknown(value: Any) -> bool:
    """True where an unknown sits anywhere inside."""
    match value:
        case Unknown():
            return True
        case Secret(inner):
            return has_unknown(inner)
        case Mapping():
            return any(has_unknown(item) for item in value.values())
        case list():
            return any(has_unknown(item) for item in value)
    return False


def has_secret(value: Any) -> bool:
    """True where a secret sits anywhere inside."""
    match value:
        case Secret():
            return True
        case Mapping():
            return any(has_secret(item) for item in value.values())
        case list():
            return any(has_secret(item) for item in value)
    return False


def mark_like(values: Mapping[str, Any], *models: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with each top-level property that is secret in any model made secret again.

    AWS answers in clear; without this a refresh would print and store a secret.
    """
    secret = {key for model in models for key, value in model.items() if has_secret(value)}
    return {key: Secret(value) if key in secret else value for key, value in values.items()}
