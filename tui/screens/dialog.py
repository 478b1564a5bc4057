"""What all screens over the conversation share: a titled box in the middle, closed by Escape."""

from typing import TypeVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

T = TypeVar("T")


class Dialog(ModalScreen[T]):
    """Subclasses say what is in the box. hint: the keys, at its foot."""

    BINDINGS = [Binding("escape", "close", "Close", show=False)]

    def __init__(self, heading: str, hint: str = "Esc closes") -> None:
        super().__init__()
        self._heading = heading
        self._hint = hint

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._heading, classes="title", markup=False)
            yield from self.compose_body()
            yield Static(self._hint, classes="hint", markup=False)

    def compose_body(self) -> ComposeResult:
        yield from ()

    def action_close(self) -> None:
        self.dismiss(None)
