"""The reconciler's orders for one run, read by URN.

The file travels in the environment, so it works for programs in any language, and it is gone with the run. A file
that is named but unreadable stops the run: silently ignoring it would apply something nobody planned.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.model.errors import DeclarationError
from trimtab.model.wire import Fields

VARIABLE = "TRIMTAB_PLAN_FILE"


@dataclass(frozen=True, slots=True)
class Order:
    """What one group is to become: the final desired capacity and the instances that leave."""

    desired: int
    retire: tuple[dict[str, Any], ...]


def retirement(value: object, path: str) -> dict[str, Any]:
    """One validated retire entry in wire form; raises DeclarationError naming the property."""
    fields = Fields(value, path)
    entry = {
        "instanceId": fields.text("instanceId"),
        "decrement": fields.flag("decrement", default=False),
        "reason": fields.text("reason"),
    }
    fields.done()
    return entry


def parse(text: str) -> Mapping[str, Order]:
    """The orders of a plan file by URN.

    Raises:
        DeclarationError: the text is not a plan.
    """
    try:
        fields = Fields(json.loads(text), "plan")
    except json.JSONDecodeError as error:
        raise DeclarationError("plan", f"not JSON: {error}") from error
    groups = fields.raw("groups")
    if not isinstance(groups, Mapping):
        raise fields.refuse("groups", "a mapping from URN to order")
    return {urn: _order(value, f"plan.groups[{urn}]") for urn, value in groups.items()}


def _order(value: object, path: str) -> Order:
    fields = Fields(value, path)
    order = Order(fields.whole("desired"), tuple(retirement(item, at) for item, at in fields.each("retire")))
    fields.done()
    return order


def order_for(urn: str) -> Order | None:
    """This run's order for a group, None where no plan names it.

    Raises:
        DeclarationError: the named file cannot be read or is not a plan.
    """
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    try:
        text = Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise DeclarationError("plan", f"{VARIABLE} names {name}, which cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DeclarationError("plan", f"{VARIABLE} names {name}, which is not UTF-8 text") from error
    return parse(text).get(urn)
