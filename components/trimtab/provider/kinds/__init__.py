"""The AWS kinds: one small file each, one grammar; adding one is a file, a schema entry and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trimtab.provider.kinds import auto_scaling_group, launch_template, role
from trimtab.provider.kinds.kind import Kind

KINDS: Final[Mapping[str, Kind]] = {
    kind.token: kind for kind in (launch_template.KIND, auto_scaling_group.KIND, role.KIND)
}
