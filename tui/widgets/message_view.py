"""One message on the screen. An answer that is being written grows a little at a time."""

import asyncio
import time

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from edgellm.tui.attachments import detach
from edgellm.tui.chat import Message, model_name
from edgellm.tui.generation import Generation
from edgellm.tui.widgets.answer import Answer
from edgellm.tui.widgets.column import Column
from edgellm.tui.widgets.markdown_part import CodeBlock
from edgellm.tui.widgets.thoughts import Thoughts

PACE = 0.03  # seconds between two looks at a growing answer, at least
_SHARE = 3  # for each moment of drawing, so many are left to keys and other answers

_GO_ON = " · Ctrl+G goes on"
ENDINGS = {
    "length": f"cut off: the limit of tokens or the end of the context{_GO_ON}",
    "abort": f"stopped{_GO_ON}",
    "error": "failed",
    None: f"interrupted{_GO_ON}",
}
AGAIN = "\nCtrl+R asks again"


class MessageView(Column, can_focus=True):
    """A message with a line above it; focused, it is the one that actions are about."""

    def __init__(
        self, message: Message, place: tuple[int, int] = (1, 1), error: Exception | None = None
    ) -> None:
        """place: which of how many branches it is. error: why the answer failed, where known."""
        super().__init__(classes=message.role)
        self.message = message
        self.place = place
        self.error = error
        self.generation: Generation | None = None
        self._top = Static(self._heading(), classes="heading")
        self.thoughts = Thoughts()
        self._answer = Answer()
        self._foot = Static(classes="ending", markup=False)

    def compose(self) -> ComposeResult:
        yield self._top
        if self.message.role == "user":
            said, files = detach(self.message.content)
            yield Static(said, markup=False, classes="said")
            if files:
                lines = [f"▤ {file.path}  {len(file.text):,} characters" for file in files]
                yield Static("\n".join(lines), markup=False, classes="files")
        else:
            yield self.thoughts
            yield self._answer
            yield self._foot

    async def on_mount(self) -> None:
        if self.message.role == "assistant":
            self._show_ending()
            await self._show_thoughts()
            if self.message.content:
                await self._answer.update(self.message.content)

    async def _show_thoughts(self) -> None:
        said = self.generation or self.message
        is_over = self.generation is None or not self.generation.is_thinking
        await self.thoughts.show(said.thoughts, said.thought_seconds, is_over)

    @property
    def has_thoughts(self) -> bool:
        return self.thoughts.is_attached and self.thoughts.display

    @property
    def code_blocks(self) -> list[CodeBlock]:
        """From the first to the last."""
        return list(self._answer.query(CodeBlock)) if self._answer.is_attached else []

    def follow(self, generation: Generation) -> None:
        """Shows an answer as it grows, until it ends."""
        if self.generation is not generation:
            self.generation = generation
            self.run_worker(self._follow(generation), exclusive=True, group="follow")

    async def _follow(self, generation: Generation) -> None:
        markdown = self._answer
        shown, pause = markdown.source, PACE
        self._show_ending()
        while True:
            is_over = generation.message.finish_reason is not None
            text = generation.text
            if not text.startswith(shown):
                await markdown.update(text)
                shown = text
            elif new := text[len(shown) :]:
                begun = time.perf_counter()
                await markdown.append(new)
                await self._drawn()
                pause = max(PACE, _SHARE * (time.perf_counter() - begun))
                shown = text
            await self._show_thoughts()
            self._top.update(self._heading(), layout=False)
            if is_over:
                break
            await asyncio.sleep(pause)
        self.message, self.generation = generation.message, None
        self.error = generation.error
        await self._show_thoughts()
        self._top.update(self._heading(), layout=False)
        self._show_ending()

    async def _drawn(self) -> None:
        """Waits until the screen shows what has changed."""
        drawn = asyncio.Event()
        self.call_after_refresh(drawn.set)
        await drawn.wait()

    async def show(self, message: Message, place: tuple[int, int], error: Exception | None) -> None:
        """Takes over what has changed; an answer that is followed grows by itself."""
        before = self.message
        if (message, place, error) == (before, self.place, self.error):
            return
        self.message, self.place, self.error = message, place, error
        self._top.update(self._heading(), layout=False)
        if message.role == "assistant" and self.generation is None:
            if message.content != before.content:  # it came to its end while this was drawn
                await self._answer.update(message.content)
            await self._show_thoughts()
            self._show_ending()

    def _heading(self) -> Content:
        message, (number, count) = self.message, self.place
        who = "You" if message.role == "user" else model_name(message.model)
        parts: list[Content | tuple[str, str]] = [(who, "bold")]
        if count > 1:
            parts.append((f"  ‹ {number}/{count} ›", "$accent"))
        if self.generation is not None:
            parts.append((f"  {self._state(self.generation)}", "$muted"))
        elif message.tokens_per_second is not None:
            parts.append((f"  {message.tokens_per_second:.1f} tokens/s", "$muted"))
        return Content.assemble(*parts)

    def _state(self, generation: Generation) -> str:
        if generation.rate is not None:
            return f"{generation.rate:.1f} tokens/s"
        return "reading…" if generation.prompt_tokens else "waiting…"

    def _show_ending(self) -> None:
        ending = self._foot
        text = "" if self.generation else ENDINGS.get(self.message.finish_reason, "")
        if text and self.error is not None:
            text = f"{text}: {self.error}{AGAIN}"
        ending.update(text)
        ending.display = bool(text)
        ending.set_class(self.message.finish_reason == "error", "error")
