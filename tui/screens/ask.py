"""Asks for a text, or whether to go on."""

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Input, Static, TextArea

from edgellm.tui.screens.dialog import Dialog


class AskScreen(Dialog[str]):
    """The text given: one line ended by Enter, or several by Ctrl+S."""

    BINDINGS = [Binding("ctrl+s", "done", "Done", show=False)]

    def __init__(
        self, title: str, text: str = "", *, multiline: bool = False, placeholder: str = ""
    ) -> None:
        keys = "Ctrl+S" if multiline else "Enter"
        super().__init__(title, f"{keys} takes it · Esc closes")
        self._text = text
        self._multiline = multiline
        self._placeholder = placeholder

    def compose_body(self) -> ComposeResult:
        if self._multiline:
            yield TextArea(self._text, compact=True, placeholder=self._placeholder)
        else:
            yield Input(self._text, compact=True, placeholder=self._placeholder)

    def on_mount(self) -> None:
        if self._multiline:
            area = self.query_one(TextArea)
            area.move_cursor(area.document.end)

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)

    def action_done(self) -> None:
        if self._multiline:
            self.dismiss(self.query_one(TextArea).text)
        else:
            self.dismiss(self.query_one(Input).value)


class ConfirmScreen(Dialog[bool]):
    """True when the user is sure. title: of what; question: with what is lost."""

    BINDINGS = [Binding("enter,y", "sure", "Yes", show=False), Binding("n", "close", show=False)]

    def __init__(self, title: str, question: str, yes: str) -> None:
        super().__init__(title, f"Enter {yes} · Esc closes")
        self._question = question

    def compose_body(self) -> ComposeResult:
        yield Static(self._question, markup=False)

    def action_sure(self) -> None:
        self.dismiss(True)
