"""What a kind is: five functions on plain values. Secrets, unknowns and previews are the servicer's concern."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.model.names import Urn
from trimtab.provider.aws import Aws

Props = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Checked:
    """Inputs with defaults filled in, and remarks for the user."""

    inputs: dict[str, Any]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Live:
    """A resource as AWS has it.

    `problems` says what is missing where only a part of it could be made; `remarks` are for the user's eyes.
    """

    id: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """One AWS kind.

    `check(old_inputs, new_inputs, urn)` may be given unknowns; the others never are. `create` adopts what an
    interrupted run of the same owner made. `read` answers None when the resource is gone. `unstable` names the
    outputs that an update may change. `live` kinds are read again before each preview.
    """

    token: str
    check: Callable[[Props, Props, Urn], Checked]
    create: Callable[[Aws, Props, Urn], Live]
    read: Callable[[Aws, str, Props], Live | None]
    update: Callable[[Aws, str, Props, Props, Urn], Live]
    delete: Callable[[Aws, str], None]
    unstable: frozenset[str] = frozenset()
    live: bool = False


def named(old: Props, new: Props, urn: Urn) -> dict[str, Any]:
    """The inputs with a name: the declared one, else the last one, else one derived from the URN."""
    declared = new["name"] if new.get("name") is not None else old.get("name")
    return {**new, "name": urn.default_name if declared is None else declared}
