"""The engine's protocol without the SDK around it.

Importing anything below ``pulumi`` runs ``pulumi/__init__``, which loads the whole SDK: 0.4 s in a process that the
engine starts twice in every command. The plugin needs only the generated messages, so in its own process it steps
into the packages above them without running them.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec

PACKAGES = ("pulumi", "pulumi.runtime")

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105  # the mark of a secret, not one
OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def without_sdk() -> None:
    """Make the protocol's modules importable alone; does nothing where the SDK is loaded already.

    Only for a process that is nothing but the plugin: the SDK's own names are missing afterwards.
    """
    if PACKAGES[0] in sys.modules:
        return
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"{name} is not installed")
        sys.modules[name] = module_from_spec(spec)
