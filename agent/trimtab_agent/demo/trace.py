"""The recorded jobs of the day."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from trimtab.model.errors import SettingsError

FILE = Path("tests") / "data" / "philly_2017-09-29.csv"
DAY_START_SECONDS = 8 * 3600
DAY_END_SECONDS = 14.5 * 3600


@dataclass(frozen=True, slots=True)
class Job:
    """A recorded job; times in seconds of the day."""

    number: int
    submit: float
    duration: float
    gpus: int


def read(path: Path) -> tuple[Job, ...]:
    """The jobs in order of arrival.

    Raises:
        SettingsError: the excerpt is not there; the demo needs the repository, not only the installed package.
    """
    try:
        with path.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        hint = "Run `make demo` in a checkout of the repository, or give its folder with --project."
        raise SettingsError(f"the recorded day {path} cannot be read: {error.strerror}", hint=hint) from error
    jobs = [
        Job(number, float(row["submit_seconds"]), float(row["duration_seconds"]), int(row["gpus"]))
        for number, row in enumerate(rows)
    ]
    within = [job for job in jobs if DAY_START_SECONDS <= job.submit < DAY_END_SECONDS]
    return tuple(sorted(within, key=lambda job: (job.submit, job.number)))
