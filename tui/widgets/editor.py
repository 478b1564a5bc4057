"""The prompt: several lines, what was typed before, completion of commands and paths."""

from rich.cells import split_graphemes
from textual import events, on
from textual.message import Message
from textual.widgets import TextArea

from edgellm.tui.attachments import mention, pasted_path
from edgellm.tui.widgets.completions import Completions

_MOST_PASTED = 100_000  # characters; more fits few contexts, and long lines make each key slow

# Handled with the letters, not as bindings, which would overtake letters typed just before.
_KEYS = {
    "enter": "submit",
    "ctrl+j": "newline",
    "shift+enter": "newline",
    "alt+enter": "newline",
    "up": "up",
    "down": "down",
    "tab": "complete",
}


class Editor(TextArea):
    """Posts Submitted with the text when Enter is pressed; Ctrl+J begins a new line.

    said: what was typed before, oldest first; up and down walk through it. completions: the list
    that is offered while a command or a path is typed.
    """

    class Submitted(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, completions: Completions) -> None:
        super().__init__(
            id="editor", compact=True, placeholder="Message", tab_behavior="focus", soft_wrap=True
        )
        self.said: list[str] = []
        self._back = 0  # how many entries of `said` we have walked back
        self._draft = ""
        self._completions = completions

    def action_submit(self) -> None:
        self._offer()
        offered = self._completions
        if offered.display and offered.is_chosen and offered.chosen != offered.word:
            self.action_complete()
            return
        text = self.text
        if not text.strip():
            return
        if text in self.said:
            self.said.remove(text)
        self.said.append(text)
        self._back = 0
        self.text = ""
        self.post_message(self.Submitted(text))

    def action_newline(self) -> None:
        self.insert("\n")

    def action_up(self) -> None:
        self._offer()
        if self._completions.display:
            self._completions.move(-1)
        elif self.cursor_location[0] == 0 and self._back < len(self.said):
            self._walk(1)
        else:
            self.action_cursor_up()

    def action_down(self) -> None:
        self._offer()
        if self._completions.display:
            self._completions.move(1)
        elif self._back and self.cursor_location[0] == self.document.line_count - 1:
            self._walk(-1)
        else:
            self.action_cursor_down()

    def action_complete(self) -> None:
        """Takes the completion that is marked; without one, the focus goes on."""
        self._offer()
        word, completed = self._completions.word, self._completions.chosen
        if not self._completions.display or completed is None:
            self.screen.focus_next()
            return
        row, column = self.cursor_location
        end = "" if completed.endswith("/") else " "
        self.replace(completed + end, (row, column - len(word)), (row, column))

    # One step of the cursor, and what a key deletes, is what people see as one character.

    def get_cursor_left_location(self) -> tuple[int, int]:
        row, column = super().get_cursor_left_location()
        return row, _start(self.document.get_line(row), column)

    def get_cursor_right_location(self) -> tuple[int, int]:
        row, column = super().get_cursor_right_location()
        line = self.document.get_line(row)
        if _start(line, column) == column:
            return row, column
        return row, next(end for _, end, _ in split_graphemes(line)[0] if end > column)

    def put(self, text: str) -> None:
        """Sets the text, with the cursor at its end."""
        self.text = text
        self.move_cursor(self.document.end)
        self.focus()

    async def _on_key(self, event: events.Key) -> None:
        action = _KEYS.get(event.key)
        if action is None:
            await super()._on_key(event)
        else:
            event.prevent_default()
            event.stop()
            getattr(self, f"action_{action}")()

    async def _on_paste(self, event: events.Paste) -> None:
        """A path that is pasted alone is attached."""
        length = len(event.text)
        if length > _MOST_PASTED:
            event.prevent_default()
            event.stop()
            self.notify(
                f"{length:,} characters are more than the {_MOST_PASTED:,} that can be pasted:"
                " attach a file with @",
                severity="warning",
            )
        elif path := pasted_path(event.text):
            event.prevent_default()
            event.stop()
            self.insert(mention(path) + " ")

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def _offer(self) -> None:
        """Called by the keys that use the list, too: what says that the text has changed waits
        behind keys that came meanwhile."""
        row, column = self.cursor_location
        self._completions.offer(self.document.get_line(row)[:column], at_start=row == 0)

    def _walk(self, steps: int) -> None:
        if self._back == 0:
            self._draft = self.text
        self._back += steps
        self.text = self.said[-self._back] if self._back else self._draft
        self.move_cursor(self.document.end)
        self._offer()
        self._completions.hide()


def _start(line: str, column: int) -> int:
    """Where the character begins that has this column in it."""
    spans = split_graphemes(line)[0]
    return next((start for start, end, _ in spans if start <= column < end), column)
