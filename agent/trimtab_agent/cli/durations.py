"""Durations as people write them: 45s, 90m, 2h, 3d."""

from __future__ import annotations

import re
from datetime import timedelta

import typer

LONGEST = timedelta(days=3650)
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_duration(text: str) -> timedelta:
    """A positive duration of at most ten years; raises typer.BadParameter naming what was given."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    try:
        duration = timedelta(**{UNITS[found[2]]: float(found[1])}) if found else timedelta(0)
    except OverflowError:
        duration = timedelta.max
    if not timedelta(0) < duration <= LONGEST:
        raise typer.BadParameter(f"{text!r} is no duration; write for example 45s, 90m, 2h or 3d")
    return duration
