"""What all screens over the conversation share: a titled box in the middle, closed by Escape."""

from typing import TypeVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

T = TypeVar("T")


class Dialog(ModalScreen[T]):
    """Subclasses say what is in the box. heading and hint, the keys, are in its frame."""

    BINDINGS = [Binding("escape", "close", "Close", show=False)]

    def __init__(self, heading: str, hint: str = "Esc closes") -> None:
        super().__init__()
        self._heading = heading
        self._hint = hint

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as box:
            box.border_title = Content(self._heading)
            box.border_subtitle = Content(self._hint)
            yield from self.compose_body()

    def show_hint(self, hint: str) -> None:
        """Other keys, or what is wrong."""
        self.query_one(".dialog").border_subtitle = Content(hint)

    def compose_body(self) -> ComposeResult:
        yield from ()

    def action_close(self) -> None:
        self.dismiss(None)
