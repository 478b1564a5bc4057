"""A table of an answer, drawn by one widget: a cell is text, not a widget of its own.

A long table comes in parts, which share their columns so that they stay in line.
"""

from collections.abc import Iterator, Sequence
from typing import Literal
from weakref import WeakSet

from markdown_it.token import Token
from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import Size
from textual.widgets import Markdown
from textual.widgets._markdown import MarkdownTable  # its documentation leaves it out
from textual.widgets.markdown import MarkdownBlock

Side = Literal["left", "right", "center"]

_BEFORE, _BEHIND = 1, 2  # cells on both sides of a column
_LEAST = 3  # cells of a column that has to be narrow


class Columns:
    """How wide the columns of a table are. widths: of the longest cell of each, in cells."""

    def __init__(self) -> None:
        self.widths: list[int] = []
        self.tables: WeakSet[Table] = WeakSet()

    def widen(self, rows: Sequence[Sequence[Content]]) -> None:
        """Makes room for the cells of these rows; where there was none, all is drawn anew."""
        longest = [max(cell.cell_length for cell in column) for column in zip(*rows, strict=True)]
        before = self.widths or [0] * len(longest)
        self.widths = [max(pair) for pair in zip(before, longest, strict=True)]
        if self.widths != before:
            for table in self.tables:
                table.redraw()


class Table(MarkdownTable):
    """A table, or a later part of one, which has no header. Only its end may change."""

    def __init__(
        self, markdown: Markdown, token: Token, source_range: tuple[int, int] | None = None
    ) -> None:
        super().__init__(markdown, token, source_range)
        self.columns = Columns()
        self.is_later_part = False
        self._sides: list[Side] = []
        self._drawn: tuple[int, list[Content]] | None = None  # the width, and the lines for it

    def compose(self) -> ComposeResult:
        self.columns.tables.add(self)
        self._take(self)
        yield from ()

    def go_on(self, columns: Columns) -> None:
        """Makes it, before it is mounted, a later part of the table that has these columns."""
        self.columns, self.is_later_part = columns, True

    def drop_last(self) -> None:
        """Takes out the last row."""
        del self._rows[-1]
        self.redraw()

    def redraw(self) -> None:
        self._drawn = None
        self.refresh(layout=True)

    async def _update_from_block(self, block: MarkdownBlock) -> None:
        if not isinstance(block, Table):
            await MarkdownBlock._update_from_block(self, block)
            return
        self._copy_context(block)
        self._take(block)
        self.redraw()

    def _take(self, block: "Table") -> None:
        head, *rows = _cells(block)
        self._headers = [cell._content for cell in head]
        self._sides = [_side(cell._token) for cell in head]
        self._rows = [[cell._content for cell in row] for row in rows]
        self.columns.widen([self._headers, *self._rows])
        block._blocks.clear()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines(width))

    def render(self) -> Content:
        return Content("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> list[Content]:
        if self._drawn is None or self._drawn[0] != width:
            around = (_BEFORE + _BEHIND) * len(self._headers)
            widths = fitted(self.columns.widths, width - around)
            lines: list[Content] = []
            if not self.is_later_part:
                head = [cell.stylize("bold") for cell in self._headers]
                lines += self._row(head, widths)
                lines.append(Content.styled("─" * min(width, sum(widths) + around), "$border"))
            for row in self._rows:
                lines += self._row(row, widths)
            self._drawn = width, lines
        return self._drawn[1]

    def _row(self, cells: Sequence[Content], widths: Sequence[int]) -> Iterator[Content]:
        """The lines of a row: as many as its highest cell has."""
        columns = [cell.wrap(width) for cell, width in zip(cells, widths, strict=True)]
        for number in range(max(map(len, columns))):
            line = []
            for column, width, side in zip(columns, widths, self._sides, strict=True):
                piece = column[number].rstrip() if number < len(column) else Content()
                left, right = _padding(width - piece.cell_length, side)
                line.append(piece.pad(_BEFORE + left, right + _BEHIND))
            yield Content("").join(line)


def fitted(widths: Sequence[int], room: int) -> list[int]:
    """As wide as the longest cells where all find room; else the widest columns share what the
    others leave."""
    found = list(widths)
    order = sorted(range(len(widths)), key=lambda at: widths[at])
    for sharing, at in zip(range(len(widths), 0, -1), order, strict=True):
        found[at] = min(widths[at], max(_LEAST, room // sharing))
        room -= found[at]
    return found


def _cells(table: MarkdownBlock) -> Iterator[list[MarkdownBlock]]:
    """The cells of each row, those of the header first."""
    for section in table._blocks:
        for row in section._blocks:
            yield row._blocks


def _side(token: Token) -> Side:
    """Where the texts of a column stand: what the dashes below the header say."""
    style = str(token.attrs.get("style", ""))
    return "right" if "right" in style else "center" if "center" in style else "left"


def _padding(spare: int, side: Side) -> tuple[int, int]:
    spare = max(0, spare)
    left = {"left": 0, "right": spare, "center": spare // 2}[side]
    return left, spare - left
