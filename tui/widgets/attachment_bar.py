"""The files that the prompt names, with their tokens, while it is typed."""

import asyncio
from collections.abc import Awaitable, Callable

from textual import work
from textual.widgets import Static

from edgellm.errors import EdgeLLMError
from edgellm.tui.attachments import mentions, read

_PAUSE = 0.3  # seconds of rest before files are read


class AttachmentBar(Static):
    """count: how many tokens a text has, None when that is not known yet."""

    def __init__(self, count: Callable[[str], Awaitable[int | None]]) -> None:
        super().__init__(id="attachments", markup=False)
        self._count = count

    def on_mount(self) -> None:
        self.display = False

    @work(exclusive=True)
    async def show(self, prompt: str) -> None:
        """Lists the files of a prompt that may still be growing."""
        if "@" not in prompt:
            self.display = False
            return
        await asyncio.sleep(_PAUSE)
        parts = []
        for path in await asyncio.to_thread(mentions, prompt):
            parts.append(f"▤ {path}  {await self._describe(path)}")
        self.update("   ".join(parts))
        self.display = bool(parts)

    async def _describe(self, path: str) -> str:
        try:
            files = await asyncio.to_thread(read, path)
            text = "\n".join(file.text for file in files)
            tokens = await self._count(text)
        except (EdgeLLMError, OSError, UnicodeDecodeError) as error:
            return str(error) if isinstance(error, EdgeLLMError) else "no text to read"
        named = f"{len(files)} files, " if len(files) > 1 else ""
        return named + (f"{len(text):,} characters" if tokens is None else f"{tokens:,} tokens")
