"""The day as one picture: what was asked for, what was there, what was used, and what happened when. SVG, pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from trimtab_agent.demo.measure import Sample
from trimtab_agent.demo.scheduler import GPUS_PER_NODE

WIDTH, HEIGHT = 1080, 520
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 132, 56
INK, PALE = "#1f2937", "#9ca3af"
SERIES = (
    ("GPUs that jobs want", "#d97706"),
    ("GPUs in service", "#2563eb"),
    ("GPUs in use", "#16a34a"),
)


def draw(samples: Sequence[Sample], events: Iterable[tuple[float, str]], title: str) -> str:
    """The picture's SVG text; `events` are hours with a few words each."""
    first, last = samples[0].hour, max(samples[-1].hour, samples[0].hour + 0.1)
    wanted = [sample.busy_gpus + sample.pending_gpus for sample in samples]
    served = [len(sample.in_service) * GPUS_PER_NODE for sample in samples]
    used = [sample.busy_gpus for sample in samples]
    most = max([GPUS_PER_NODE, *wanted, *served])
    top = (most // GPUS_PER_NODE + 1) * GPUS_PER_NODE

    def x(hour: float) -> float:
        return LEFT + (hour - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y(gpus: float) -> float:
        return HEIGHT - BOTTOM - gpus / top * (HEIGHT - TOP - BOTTOM)

    svg = Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img")
    SubElement(svg, "rect", width=str(WIDTH), height=str(HEIGHT), fill="white")
    _text(svg, LEFT, 30, title, size=18, weight="600")
    _axes(svg, x, y, first, last, top)
    hours = [sample.hour for sample in samples]
    _area(svg, [(x(hour), y(value)) for hour, value in zip(hours, used, strict=True)], y(0), SERIES[2][1])
    _line(svg, stepped([(x(hour), y(value)) for hour, value in zip(hours, served, strict=True)]), SERIES[1][1], 2.5)
    _line(svg, [(x(hour), y(value)) for hour, value in zip(hours, wanted, strict=True)], SERIES[0][1], 1.5)
    _legend(svg)
    for number, (hour, words) in enumerate(events):
        _event(svg, x(min(max(hour, first), last)), number, words, y(0))
    return tostring(svg, encoding="unicode")


def stepped(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """A line that moves in steps, because nodes come and go whole."""
    steps = [points[0]]
    for here, there in itertools.pairwise(points):
        steps += [(there[0], here[1]), there]
    return steps


def _axes(svg: Element, x: object, y: object, first: float, last: float, top: int) -> None:
    for gpus in range(0, top + 1, GPUS_PER_NODE):
        level = y(gpus)  # type: ignore[operator]
        SubElement(
            svg, "line", x1=str(LEFT), x2=str(WIDTH - RIGHT), y1=f"{level:.1f}", y2=f"{level:.1f}", stroke="#e5e7eb"
        )
        _text(svg, LEFT - 8, level + 4, str(gpus), anchor="end", colour=PALE)
    for hour in range(int(first) + (first > int(first)), int(last) + 1, 1 if last - first <= 16 else 2):
        _text(svg, x(hour), HEIGHT - BOTTOM + 20, f"{hour % 24:02d}:00", anchor="middle", colour=PALE)  # type: ignore[operator]
    _text(svg, LEFT - 48, TOP - 14, "GPUs", colour=PALE)
    _text(svg, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "time of the recorded day", anchor="middle", colour=PALE)


def _legend(svg: Element) -> None:
    for number, (name, colour) in enumerate(SERIES):
        left = WIDTH - RIGHT - 560 + number * 190
        SubElement(svg, "rect", x=str(left), y="40", width="14", height="14", fill=colour, rx="2")
        _text(svg, left + 20, 52, name)


def _event(svg: Element, at: float, number: int, words: str, floor: float) -> None:
    level = 72 + (number % 3) * 18
    SubElement(
        svg,
        "line",
        x1=f"{at:.1f}",
        x2=f"{at:.1f}",
        y1=str(level + 4),
        y2=f"{floor:.1f}",
        stroke=PALE,
        attrib={"stroke-dasharray": "3 4"},
    )
    right_half = at > WIDTH / 2
    _text(svg, at - 4 if right_half else at + 4, level, words, anchor="end" if right_half else "start", size=12)


def _line(svg: Element, points: Sequence[tuple[float, float]], colour: str, width: float) -> None:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    SubElement(svg, "polyline", points=path, fill="none", stroke=colour, attrib={"stroke-width": str(width)})


def _area(svg: Element, points: Sequence[tuple[float, float]], floor: float, colour: str) -> None:
    closed = [(points[0][0], floor), *stepped(points), (points[-1][0], floor)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in closed)
    SubElement(svg, "polygon", points=path, fill=colour, attrib={"fill-opacity": "0.25"})


def _text(
    svg: Element,
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    colour: str = INK,
    size: int = 13,
    weight: str = "400",
) -> None:
    attributes = {"font-size": str(size), "font-weight": weight, "text-anchor": anchor}
    element = SubElement(
        svg,
        "text",
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        fill=colour,
        attrib={**attributes, "font-family": "system-ui, sans-serif"},
    )
    element.text = words
