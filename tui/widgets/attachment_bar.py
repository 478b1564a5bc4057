"""The files that the prompt names, with their tokens, while it is typed."""

import asyncio
from collections.abc import Awaitable, Callable

from textual import work
from textual.content import Content
from textual.widgets import Static

from edgellm.errors import EdgeLLMError
from edgellm.tui.attachments import mentions, read

_PAUSE = 0.3  # seconds of rest before files are read


class AttachmentBar(Static):
    """count: how many tokens a text has, None when that is not known yet. context: how many fit."""

    def __init__(
        self, count: Callable[[str], Awaitable[int | None]], context: Callable[[], int | None]
    ) -> None:
        super().__init__(id="attachments", markup=False)
        self._count = count
        self._context_length = context

    def on_mount(self) -> None:
        self.display = False

    @work(exclusive=True)
    async def show(self, prompt: str) -> None:
        """Lists the files of a prompt that may still be growing."""
        if "@" not in prompt:
            self.display = False
            return
        await asyncio.sleep(_PAUSE)
        lines = [await self._line(path) for path in await asyncio.to_thread(mentions, prompt)]
        tokens, context = sum(count for _, count in lines), self._context_length()
        shown = [line for line, _ in lines]
        if context is not None and tokens > context:
            warning = f"{tokens:,} tokens are more than the context of {context:,}"
            shown.append(Content.styled(warning, "$warning"))
        self.update(Content("\n").join(shown))
        self.display = bool(shown)

    async def _line(self, path: str) -> tuple[Content, int]:
        """What is shown of a file or folder, and its tokens as far as they are known."""
        try:
            files = await asyncio.to_thread(read, path)
            text = "\n".join(file.text for file in files)
            tokens = await self._count(text)
        except (EdgeLLMError, OSError) as error:
            said = str(error) if isinstance(error, EdgeLLMError) else f"@{path}: {error.strerror}"
            return Content.styled(said, "$error"), 0
        many = f"{len(files)} files, " if len(files) > 1 else ""
        size = f"{len(text):,} characters" if tokens is None else f"{tokens:,} tokens"
        return Content(f"▤ {path}  {many}{size}"), tokens or 0
