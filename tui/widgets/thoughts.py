"""What a model thought before its answer: one line, under which the thoughts open."""

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.widgets import Static

from edgellm.tui.widgets.answer import Answer
from edgellm.tui.widgets.column import Column
from edgellm.tui.widgets.status_bar import seconds

_CLOSED, _OPEN = "▸", "▾"
_LINE = 200  # characters of the newest thought that may be shown beside the time


class Thoughts(Column, can_focus=True):
    """Not seen while there are none. While they are closed, the newest thought is in the line."""

    BINDINGS = [Binding("enter,space", "unfold", "Show or hide", show=False)]

    def __init__(self) -> None:
        super().__init__(classes="thoughts")
        self.is_open = False
        self._text = ""
        self._seconds: float | None = None
        self._is_over = True
        self._line = Static(classes="line")
        self._body = Answer()

    def compose(self) -> ComposeResult:
        yield self._line
        yield self._body

    def on_mount(self) -> None:
        self._body.display = False
        self.display = bool(self._text)

    async def show(self, text: str, spent: float | None, is_over: bool) -> None:
        """spent: seconds, None where nobody has counted. is_over: no more will come."""
        if (text, spent, is_over) == (self._text, self._seconds, self._is_over):
            return
        self._text, self._seconds, self._is_over = text, spent, is_over
        self.display = bool(text)
        await self._draw()

    async def action_unfold(self) -> None:
        self.is_open = not self.is_open
        self._body.display = self.is_open
        await self._draw()

    async def on_click(self, event: events.Click) -> None:
        if event.widget is self._line:
            event.stop()
            await self.action_unfold()

    async def _draw(self) -> None:
        self._line.update(self._summary(), layout=False)
        if not self.is_open:
            return
        shown = self._body.source
        if not self._text.startswith(shown):
            await self._body.update(self._text)
        elif more := self._text[len(shown) :]:
            await self._body.append(more)

    def _summary(self) -> Content:
        mark = _OPEN if self.is_open else _CLOSED
        spent = "" if self._seconds is None else f" {seconds(self._seconds)}"
        if self._is_over:
            done = f"Thought for{spent}" if spent else "Thought before the answer"
            return Content(f"{mark} {done}")
        newest = self._text.rstrip().rpartition("\n")[2]
        preview = "" if self.is_open else f"  {newest[-_LINE:]}"
        return Content.assemble(f"{mark} Thinking{spent}", (preview, "italic"))
