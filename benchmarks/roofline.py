#!/usr/bin/env python3
"""Draw a roofline from a result of products.py.

    roofline.py RESULT.json OUT.svg

Across: multiply-adds for each byte of weights that is read. Up: multiply-adds per second. The
slope is the fastest plain read of memory, the roof the fastest product that was measured.
"""

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

WIDTH, HEIGHT = 860, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 30, 30, 60
INK, FAINT, ONE, MANY = "#30343b", "#d6dae0", "#2f6fb3", "#c05a2b"


@dataclass(frozen=True)
class Axis:
    """A logarithmic scale from `low` to `high` over pixels `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + part * (self.end - self.start)

    def decades(self) -> list[float]:
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        return [10.0**power for power in range(first, last + 1)]


def text(x: float, y: float, words: str, anchor: str = "middle", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="{INK}">{words}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width}"/>'
    )


def dot(x: float, y: float, colour: str, title: str) -> str:
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}" fill-opacity="0.8">'
        f"<title>{title}</title></circle>"
    )


def draw(result: dict) -> str:
    formats, machine = result["formats"], result["machine"]
    read = max(row["read_gbs"] for row in formats.values())
    roof = max(row["many_rows_gmacs"] for row in formats.values())
    points = []
    for name, row in formats.items():
        per_byte = 1 / row["bytes_per_weight"]
        rows = row["many_rows"]
        points.append((name, per_byte, row["one_row_gmacs"], ONE, "one row"))
        points.append((name, per_byte * rows, row["many_rows_gmacs"], MANY, f"{rows} rows"))
    across = Axis(
        min(p[1] for p in points) / 1.6, max(p[1] for p in points) * 1.6, LEFT, WIDTH - RIGHT
    )
    up = Axis(min(p[2] for p in points) / 1.6, roof * 1.6, HEIGHT - BOTTOM, TOP)
    corner = roof / read
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    ]
    for value in across.decades():
        x = across.at(value)
        parts += [line(x, TOP, x, HEIGHT - BOTTOM, FAINT)]
        parts += [text(x, HEIGHT - BOTTOM + 18, f"{value:g}")]
    for value in up.decades():
        y = up.at(value)
        parts += [line(LEFT, y, WIDTH - RIGHT, y, FAINT)]
        parts += [text(LEFT - 8, y + 4, f"{value:g}", "end")]
    start = max(across.low, up.low / read)
    parts += [
        line(across.at(start), up.at(start * read), across.at(corner), up.at(roof), INK, 1.5),
        line(across.at(corner), up.at(roof), WIDTH - RIGHT, up.at(roof), INK, 1.5),
        text(across.at(corner) + 8, up.at(roof) - 8, f"{roof:.0f} GMAC/s", "start"),
        text(
            across.at(start) + 10, up.at(start * read) - 14, f"plain read {read:.1f} GB/s", "start"
        ),
    ]
    for name, x, y, colour, what in points:
        share = y / min(roof, read * x)
        title = f"{name}, {what}: {y:.1f} GMAC/s, {share:.0%} of the roof"
        parts.append(dot(across.at(x), up.at(y), colour, title))
    for name in (min(formats, key=lambda n: formats[n]["bytes_per_weight"]), "Q4_K", "Q8_0", "F16"):
        if name in formats:
            row = formats[name]
            x, y = across.at(1 / row["bytes_per_weight"]), up.at(row["one_row_gmacs"])
            parts.append(text(x + 7, y + 14, name, "start", 11))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts += [
        text(middle, HEIGHT - 14, "multiply-adds per byte of weights (log scale)"),
        f'<text transform="translate(18 {HEIGHT / 2}) rotate(-90)" text-anchor="middle" '
        f'font-size="12" fill="{INK}">GMAC/s (log scale)</text>',
        dot(WIDTH - 330, HEIGHT - BOTTOM - 34, ONE, "one row"),
        text(WIDTH - 320, HEIGHT - BOTTOM - 30, "one row: writing a token", "start"),
        dot(WIDTH - 330, HEIGHT - BOTTOM - 16, MANY, "many rows"),
        text(WIDTH - 320, HEIGHT - BOTTOM - 12, "128 rows: reading a prompt", "start"),
        text(LEFT + 4, TOP - 12, f"{machine['processor']}, {machine['threads']} threads", "start"),
        "</svg>\n",
    ]
    return "\n".join(parts)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = map(Path, sys.argv[1:])
    target.write_text(draw(json.loads(source.read_text())))


if __name__ == "__main__":
    main()
