"""A picture of several measured files as SVG: quality against bytes. Knows text and numbers alone.

Colours follow the reader's: dark on light, light on dark.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 760, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 200, 40, 60
_TICKS = 5
_LINE, _LETTER = 15, 7.5  # of a label


@dataclass(frozen=True)
class Point:
    """A file: where it lies and what it is called."""

    x: float
    y: float
    label: str


def scatter(
    points: Sequence[Point], title: str, x_title: str, y_title: str, more_is_better: bool
) -> str:
    """The document. Those that no other beats in both directions are joined by a line."""
    if not points:
        raise ValueError("nothing to draw")
    xs = _Axis([point.x for point in points], _LEFT, _WIDTH - _RIGHT)
    ys = _Axis([point.y for point in points], _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'role="img" aria-label="{_quoted(title)}">',
        "<style>svg{color-scheme:light dark;font:13px sans-serif;--ink:#222;--line:#8886;"
        "--mark:#2a6fdb}@media(prefers-color-scheme:dark){svg{--ink:#eee}}"
        "text{fill:var(--ink)}</style>",
        f'<text x="{_LEFT}" y="20" font-weight="bold">{escape(title)}</text>',
    ]
    for value in xs.ticks:
        at = xs.at(value)
        parts.append(_line(at, _TOP, at, _HEIGHT - _BOTTOM))
        parts.append(_text(at, _HEIGHT - _BOTTOM + 18, f"{value:g}", "middle"))
    for value in ys.ticks:
        at = ys.at(value)
        parts.append(_line(_LEFT, at, _WIDTH - _RIGHT, at))
        parts.append(_text(_LEFT - 8, at + 4, f"{value:g}", "end"))
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(_text(middle, _HEIGHT - 16, x_title, "middle"))
    parts.append(
        f'<text x="18" y="{_HEIGHT / 2:g}" text-anchor="middle" '
        f'transform="rotate(-90 18 {_HEIGHT / 2:g})">{escape(y_title)}</text>'
    )
    front = " ".join(
        f"{xs.at(point.x):.1f},{ys.at(point.y):.1f}" for point in _front(points, more_is_better)
    )
    parts.append(f'<polyline points="{front}" fill="none" stroke="var(--mark)" opacity="0.5"/>')
    places = [(xs.at(point.x), ys.at(point.y)) for point in points]
    for x, y in places:
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="var(--mark)"/>')
    for box, point in zip(_labels(places, points), points, strict=True):
        parts.append(_text(box.x, box.y, point.label, "start"))
    return "\n".join([*parts, "</svg>", ""])


@dataclass(frozen=True)
class _Box:
    """x, y: of its lower left corner, from above."""

    x: float
    y: float
    width: float

    def touches(self, other: "_Box") -> bool:
        beside = self.x >= other.x + other.width or other.x >= self.x + self.width
        return not beside and abs(self.y - other.y) < _LINE


def _labels(places: Sequence[tuple[float, float]], points: Sequence[Point]) -> list[_Box]:
    """Where labels go: right of their points, above or below where something else is there."""
    taken = [_Box(x - 5, y + 4, 10) for x, y in places]
    labels: list[_Box] = []
    for (x, y), point in zip(places, points, strict=True):
        width = _LETTER * len(point.label)
        shifts = (_LINE * step * sign for step in range(len(points) + 1) for sign in (-1, 1))
        tries = [_Box(x + 8, y + 4 + shift, width) for shift in shifts]
        free = (box for box in tries if not any(map(box.touches, [*taken, *labels])))
        labels.append(next(free, tries[0]))
    return labels


def _front(points: Sequence[Point], more_is_better: bool) -> list[Point]:
    """From the smallest on, each that is better than all before it."""
    sign = -1 if more_is_better else 1
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.x, sign * point.y)):
        if not front or sign * point.y < sign * front[-1].y:
            front.append(point)
    return front


class _Axis:
    """Round numbers around values, and where each lies between two ends of the picture."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        low, high = min(values), max(values)
        spread = max(high - low, 1e-6 * abs(high), 1e-9)  # or ticks would be one and the same
        step = _round_step(spread / _TICKS)
        first, last = floor(low / step), ceil(high / step)
        last += first == last
        self.ticks = [round(step * number, 12) for number in range(first, last + 1)]
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        share = (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])
        return self._start + share * (self._end - self._start)


def _round_step(step: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** floor(log10(step))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= step)


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="var(--line)"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _quoted(text: str) -> str:
    return escape(text, {'"': "&quot;"})
