"""Two answers to one question, side by side while they are written."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from edgellm.tui.generation import Generation
from edgellm.tui.screens.dialog import Dialog
from edgellm.tui.widgets.following import Following
from edgellm.tui.widgets.message_view import MessageView

_HINT = "← keeps the left · → the right · Esc closes"


class CompareScreen(Dialog[int]):
    """Which of the two is to be gone on with; the other stays as a branch."""

    BINDINGS = [
        Binding("1,left", "keep(0)", "The left one", show=False, priority=True),
        Binding("2,right", "keep(1)", "The right one", show=False, priority=True),
    ]

    def __init__(self, generations: Sequence[Generation], titles: Sequence[str]) -> None:
        super().__init__("Compare", _HINT)
        self._generations = generations
        self._titles = titles

    def compose_body(self) -> ComposeResult:
        with Horizontal(classes="body"):
            for generation, title in zip(self._generations, self._titles, strict=True):
                with Vertical(classes="column"):
                    yield Static(title, markup=False, classes="column-title")
                    with Following():
                        yield MessageView(generation.message)

    def on_mount(self) -> None:
        for view, generation in zip(self.query(MessageView), self._generations, strict=True):
            view.follow(generation)

    def action_keep(self, chosen: int) -> None:
        self.dismiss(chosen)
