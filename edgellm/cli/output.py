"""How commands print: tables for people, tab-separated lines for pipes, JSON for programs."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from edgellm.escapes import printable

_UNITS = ("B", "kB", "MB", "GB", "TB")


def print_json(value: Any) -> None:
    """One JSON value, indented, to standard output; bytes are lists of numbers."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=list))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table that fits the terminal, or a heading line and rows with tabs between the cells."""
    rows = [[printable(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in [headings, *rows]:
            print("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, heading in enumerate(headings):
        table.add_column(heading, no_wrap=number == 0, overflow="ellipsis" if number else "fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)


def print_fields(fields: Sequence[tuple[str, str]]) -> None:
    """Lines `name   value`, values below each other."""
    width = max((len(name) for name, _ in fields), default=0)
    for name, value in fields:
        print(f"{name:<{width}}  {printable(value)}")


def byte_size(count: int | None) -> str:
    """Bytes in decimal units with three digits, as shops sell disks: 98.4 MB."""
    if count is None:
        return "?"
    size, unit = float(count), _UNITS[0]
    for unit in _UNITS:
        if size < 999.5 or unit == _UNITS[-1]:
            break
        size /= 1000
    return f"{count} B" if unit == "B" else f"{size:.3g} {unit}"
