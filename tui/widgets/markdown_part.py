"""A part of an answer that stays quick while it grows: only the end of a long list or code block is
drawn anew, and code is coloured when it comes into sight.

Textual's own blocks are kept; those that it would rebuild whole at every addition are replaced.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len
from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import Size
from textual.layout import DockArrangeResult
from textual.widget import Widget
from textual.widgets import Markdown, Static
from textual.widgets.markdown import MarkdownBlock, MarkdownFence

# Names of Textual's that its documentation leaves out.
from textual.widgets._markdown import (  # isort: skip
    MarkdownBullet,
    MarkdownList,
    MarkdownListItem,
    MarkdownOrderedListItem,
)
from textual.containers import Horizontal, Vertical

from edgellm.tui.widgets.column import width_of
from edgellm.tui.widgets.fold import Fold
from edgellm.tui.widgets.table import Columns, Table

_ITEM = re.compile(r"[-*+] |\d+[.)] ")  # the beginning of an item that is in no other one
_ROWS = 20  # items of a list that are folded together
_CHUNK = 40  # lines of code that are coloured at once; colours do not reach over its end
_LANGUAGES = ("python", "javascript", "sql", "cpp", "rust", "html", "bash", "java")


def load_lexers() -> None:
    """Prepares for code in common languages: the first of each takes 2 to 20 ms longer."""
    for language in _LANGUAGES:
        MarkdownFence.highlight("", language)


class CodeChunk(Static):
    """Some lines of a code block. Its size is known without colouring it."""

    def __init__(self, code: str, block: "CodeBlock") -> None:
        super().__init__(markup=False)
        self.code = code
        self._block = block
        self._coloured: Content | None = None

    def change(self, code: str) -> None:
        if code != self.code:
            self.code = code
            self.recolour(layout=True)

    def recolour(self, layout: bool = False) -> None:
        self._coloured = None
        self.refresh(layout=layout)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return max(map(cell_len, self.code.expandtabs(8).split("\n")))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.code.count("\n") + 1

    def render(self) -> Content:
        if self._coloured is None:
            self._coloured = MarkdownFence.highlight(
                self.code,
                self._block.lexer,
                ansi=self.app.native_ansi_color,
                dark=self.app.current_theme.dark,
            )
        return self._coloured


class CodeBlock(MarkdownFence, can_focus=True):
    """A fence of any length. Focused, it is the one that is copied."""

    @classmethod
    def highlight(cls, code: str, language: str, ansi: bool = False, dark: bool = False) -> Content:
        return Content(code)  # the chunks do that

    def compose(self) -> ComposeResult:
        with Vertical():
            for code in _chunks(self.code):
                yield CodeChunk(code, self)

    def set_content(self, content: Content) -> None:
        self._content = content

    def notify_style_update(self) -> None:
        Widget.notify_style_update(self)
        for chunk in self.query(CodeChunk):
            chunk.recolour()

    async def _update_from_block(self, block: MarkdownBlock) -> None:
        if not isinstance(block, CodeBlock) or not self.query(CodeChunk):
            await MarkdownBlock._update_from_block(self, block)
            return
        self._copy_context(block)
        codes = _chunks(self.code)
        chunks = list(self.query(CodeChunk))
        for chunk, code in zip(chunks, codes, strict=False):
            chunk.change(code)
        for chunk in chunks[len(codes) :]:
            await chunk.remove()
        new = [CodeChunk(code, self) for code in codes[len(chunks) :]]
        await self.query_one(Vertical).mount_all(new)


class GrowingList(MarkdownList):
    """A list of which only the last item changes, and to which items are added."""

    DEFAULT_CSS = """
    GrowingList {
        margin: 0 0 1 0;
        & Horizontal, & Vertical { height: auto; width: 1fr; }
    }
    """

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        return super().arrange(width_of(size), optimal)

    def compose(self) -> ComposeResult:
        rows = self._take_rows()
        for at in range(0, len(rows), _ROWS):
            yield Fold(*rows[at : at + _ROWS], closed=at + _ROWS < len(rows))

    @property
    def _folds(self) -> list[Fold]:
        return [child for child in self.children if isinstance(child, Fold)]

    @property
    def rows(self) -> list[Widget]:
        """One for each item."""
        return [row for fold in self._folds for row in fold.children]

    def _take_rows(self) -> list[Widget]:
        """A row per item that has been parsed and is not shown yet."""
        items = [block for block in self._blocks if isinstance(block, MarkdownListItem)]
        self._blocks.clear()
        return [Horizontal(_mark(item), Vertical(*item._blocks)) for item in items]

    async def _update_from_block(self, block: MarkdownBlock) -> None:
        shown = self.rows
        if not isinstance(block, GrowingList) or not 0 < len(shown) <= len(block._blocks):
            await super()._update_from_block(block)
            return
        self._copy_context(block)
        await _grow(shown[-1].query_one(Vertical), block._blocks[len(shown) - 1]._blocks)
        del block._blocks[: len(shown)]
        rows = block._take_rows()
        while rows:
            last = self._folds[-1]
            if len(last.children) >= _ROWS:
                last.close()
                last = Fold()
                await self.mount(last)
            room = _ROWS - len(last.children)
            await last.mount_all(rows[:room])
            del rows[:room]


def _mark(item: MarkdownListItem) -> MarkdownBullet:
    mark = MarkdownBullet()
    is_ordered = isinstance(item, MarkdownOrderedListItem)
    mark.symbol = f"{item.bullet:>2}. " if is_ordered else item.bullet
    return mark


class _Parser(MarkdownIt):
    """Knows the link definitions of the other parts."""

    def __init__(self, references: dict[str, Any]) -> None:
        super().__init__("gfm-like")
        self._references = references

    def parse(self, src: str, env: Any = None) -> list[Token]:
        return super().parse(src, {"references": self._references})


@dataclass(frozen=True)
class Rest:
    """What a new part begins with. columns: of the table that it goes on with, if any."""

    source: str
    columns: Columns | None = None


class MarkdownPart(Markdown):
    """Some blocks of an answer. references: link definitions, shared by its parts. columns: of the
    table that the part before ends with and this one goes on with."""

    BLOCKS = {
        **Markdown.BLOCKS,
        "fence": CodeBlock,
        "code_block": CodeBlock,
        "bullet_list_open": GrowingList,
        "ordered_list_open": GrowingList,
        "table_open": Table,
    }

    def __init__(
        self,
        references: dict[str, Any],
        source: str | None = None,
        columns: Columns | None = None,
    ) -> None:
        super().__init__(source, open_links=False, parser_factory=lambda: _Parser(references))
        self._columns = columns

    def _parse_markdown(self, tokens: Iterable[Token]) -> Iterator[MarkdownBlock]:
        for block in super()._parse_markdown(tokens):
            if self._columns is not None and isinstance(block, Table):
                block.go_on(self._columns)
                self._columns = None  # the first block alone
            yield block

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        return super().arrange(width_of(size), optimal)

    async def cut(self) -> Rest | None:
        """Takes out the last block, which may still grow; of a list or table that stands alone its
        last item or row. None where there is nothing before it."""
        blocks = [child for child in self.children if isinstance(child, MarkdownBlock)]
        lines = self.source.splitlines(keepends=True)
        match blocks:
            case [_, *_, last]:
                await last.remove()
                return Rest("".join(lines[last.source_range[0] :]))
            case [GrowingList(rows=[_, *_, item]) as block]:
                start = max(at for at, line in enumerate(lines) if at == 0 or _ITEM.match(line))
                block.styles.margin = 0  # what follows belongs to the same list
                await item.remove()
                return Rest("".join(lines[start:]))
            case [Table() as block] if lines[-1].strip():
                start = block.source_range[0]
                head, (*rows, row) = lines[start : start + 2], lines[start + 2 :]
                if rows:
                    block.styles.margin = 0
                    block.drop_last()
                    return Rest("".join([*head, row]), block.columns)
        return None


async def _grow(box: Widget, blocks: list[MarkdownBlock]) -> None:
    """Makes the blocks in the box those given, which have the same beginning."""
    old = [child for child in box.children if isinstance(child, MarkdownBlock)]
    if old and len(blocks) >= len(old) and type(old[-1]) is type(blocks[len(old) - 1]):
        await _update(old[-1], blocks[len(old) - 1], box)
        await box.mount_all(blocks[len(old) :])
    else:
        await box.remove_children()
        await box.mount_all(blocks)


async def _update(old: MarkdownBlock, new: MarkdownBlock, box: Widget) -> None:
    """Like Textual's own update, which would put a replaced block at the end of the document."""
    if isinstance(old, CodeBlock | GrowingList | Table):
        await old._update_from_block(new)
    elif new._blocks or old.children:
        await old.remove()
        await box.mount(new)
    else:
        old._copy_context(new)
        old.set_content(new._content)


def _chunks(code: str) -> list[str]:
    lines = code.split("\n")
    return ["\n".join(lines[at : at + _CHUNK]) for at in range(0, len(lines), _CHUNK)]
