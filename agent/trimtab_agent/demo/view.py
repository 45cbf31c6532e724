"""What a person sees: a live picture of the fleet on a terminal, plain lines elsewhere, nothing for scripts."""

from __future__ import annotations

from collections import deque
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trimtab_agent.demo.measure import Sample
from trimtab_agent.demo.scheduler import GPUS_PER_NODE, Scheduler

LINES = 12
BLOCKS = " ▁▂▃▄▅▆▇█"
SPARK_WIDTH = 60
COLOURS = {"healthy": "green", "degraded": "yellow", "unknown": "yellow", "unhealthy": "red", "booting": "blue"}


class View:
    """One of three faces; each takes the same calls."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(highlight=False, quiet=quiet)
        self._lines: deque[str] = deque(maxlen=LINES)
        self._history: deque[int] = deque(maxlen=SPARK_WIDTH)
        self._live = (
            Live(console=self._console, refresh_per_second=4) if self._console.is_terminal and not quiet else None
        )

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._live:
            self._live.stop()

    def tell(self, clock: str, sentence: str) -> None:
        """One line of narration."""
        line = f"[dim]{clock}[/]  {escape(sentence)}"
        self._lines.append(line)
        if self._live is None:
            self._console.print(line, soft_wrap=True)

    def show(self, sample: Sample, scheduler: Scheduler, reports: dict[str, Any], share: float) -> None:
        """The fleet now; `share` is how much of the day has passed."""
        self._history.append(len(sample.in_service))
        if self._live:
            self._live.update(self._screen(sample, scheduler, reports, share))

    def _screen(self, sample: Sample, scheduler: Scheduler, reports: dict[str, Any], share: float) -> Group:
        head = Text(f"{clock_of(sample.hour)}   desired {sample.desired}   in service {len(sample.in_service)}   ")
        head.append(f"{len(scheduler.running)} jobs run, {len(scheduler.queue)} wait for {scheduler.pending_gpus} GPUs")
        spark = Text("nodes " + "".join(BLOCKS[min(8, count)] for count in self._history), style="blue")
        return Group(
            ProgressBar(total=1.0, completed=min(share, 1.0), width=80),
            head,
            spark,
            fleet_table(sample, scheduler, reports),
            *[Text.from_markup(line, overflow="ellipsis") for line in self._lines],
        )

    def result(self, answers: dict[str, Any], figures: dict[str, Any]) -> None:
        """The summary, for people."""
        table = Table(box=None, show_header=False, pad_edge=False)
        for key, value in {**answers, **figures}.items():
            style = "red" if value is False or value is None else "green" if value is True else None
            table.add_row(
                key.replace("_", " "), "no" if value is False else "yes" if value is True else str(value), style=style
            )
        self._console.print()
        self._console.print(table)

    def say(self, words: str) -> None:
        """A closing line."""
        self._console.print(escape(words), soft_wrap=True)


def fleet_table(sample: Sample, scheduler: Scheduler, reports: dict[str, Any]) -> Table:
    """One row for each instance."""
    table = Table(box=None, pad_edge=False)
    for title in ("node", "health", "GPUs in use", "mark"):
        table.add_column(title)
    for node in sample.in_service:
        report = reports.get(node)
        health = report["health"] if report else "booting"
        used = scheduler.used(node)
        mark = ((report or {}).get("cordon") or {}).get("owner", "")
        table.add_row(node, Text(health, style=COLOURS[health]), "█" * used + "·" * (GPUS_PER_NODE - used), mark)
    return table


def clock_of(hour: float) -> str:
    """An hour of the day as people write it."""
    return f"{int(hour) % 24:02d}:{int(hour % 1 * 60):02d}"
