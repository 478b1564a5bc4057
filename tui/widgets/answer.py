"""The Markdown of an answer in parts: only the last one grows, those out of sight are folded."""

from typing import Any

from markdown_it import MarkdownIt
from textual.message import Message

from edgellm.tui.widgets.column import Column
from edgellm.tui.widgets.fold import Fold
from edgellm.tui.widgets.leaving import while_shown
from edgellm.tui.widgets.markdown_part import MarkdownPart, Rest

_PART = 1500  # characters of a part, or more where a block is longer


class Answer(Column):
    """Shows Markdown that may be added to."""

    class Grown(Message):
        """Says that its height has changed."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.source = ""
        self._references: dict[str, Any] = {}  # link definitions, which hold in all parts
        self._last = MarkdownPart(self._references)

    async def update(self, source: str) -> None:
        """Shows other text."""
        self.source = source
        self._references.clear()
        *done, last = _parts(source, self._references)
        with while_shown(self), self.app.batch_update():
            await self.remove_children()
            parts = [MarkdownPart(self._references, part) for part in done]
            await self.mount_all([Fold(part, closed=True) for part in parts])
            await self._begin(Rest(last))
        self.post_message(self.Grown())

    async def append(self, more: str) -> None:
        """Shows more text at the end."""
        self.source += more
        with while_shown(self):
            if not self._last.is_attached:
                await self._begin(Rest(""))
            await self._last.append(more)
            if len(self._last.source) > _PART:
                await self._cut()
        self.post_message(self.Grown())

    async def _cut(self) -> None:
        """What is finished of the last part stays; the rest begins a new one."""
        with self.app.batch_update():
            if rest := await self._last.cut():
                fold = self._last.parent
                if isinstance(fold, Fold):
                    fold.close()
                await self._begin(rest)

    async def _begin(self, rest: Rest) -> None:
        self._last = MarkdownPart(self._references, columns=rest.columns)
        await self.mount(Fold(self._last))
        if rest.source:
            await self._last.append(rest.source)


def _parts(source: str, references: dict[str, Any]) -> list[str]:
    """The text cut between blocks into parts of about the same size; finds the references."""
    lines = source.splitlines(keepends=True)
    parts = [""]
    at = 0
    blocks = MarkdownIt("gfm-like").disable("inline")
    for token in blocks.parse(source, {"references": references}):
        if token.level == 0 and token.map is not None and token.map[0] > at:
            parts[-1] += "".join(lines[at : token.map[0]])
            at = token.map[0]
            if len(parts[-1]) > _PART:
                parts.append("")
    parts[-1] += "".join(lines[at:])
    return parts
