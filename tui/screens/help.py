"""All actions with their keys and commands."""

from collections.abc import Iterable
from itertools import groupby
from typing import Protocol

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.widgets import Static

from edgellm.tui.screens.dialog import Dialog

_EDITOR = (
    ("Enter", "sends; Ctrl+J begins a new line"),
    ("↑ ↓", "what was typed before, at the first and the last line"),
    ("@path", "attaches a file, or the text files of a folder"),
    ("/", "lists the commands; Tab completes"),
    ("Ctrl+C", "copies what is selected, or stops writing"),
    ("Tab", "goes to the messages: actions are about the one in focus"),
)
_COMMAND = 14  # cells


class Shown(Protocol):
    """What is read of an action."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def argument(self) -> str: ...
    @property
    def shown_key(self) -> str: ...


class HelpScreen(Dialog[None]):
    """actions: in the order of their groups."""

    def __init__(self, actions: Iterable[Shown]) -> None:
        super().__init__("Help", "Ctrl+P finds any of these by name · Esc closes")
        self._actions = actions

    def compose_body(self) -> ComposeResult:
        with VerticalScroll(classes="body"):
            yield _Table("Prompt", [(key, "", text) for key, text in _EDITOR])
            for group, actions in groupby(self._actions, lambda action: action.group):
                rows = [
                    (action.shown_key, f"/{action.name} {action.argument}".rstrip(), action.title)
                    for action in actions
                ]
                yield _Table(group, rows)


class _Table(Static):
    """Rows of a key, a command and what they do, which is wrapped beside them."""

    def __init__(self, title: str, rows: Iterable[tuple[str, str, str]]) -> None:
        super().__init__(markup=False)
        self._title = Content.styled(title, "bold $accent")
        self._rows = [_row(*row) for row in rows]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines(width))

    def render(self) -> Content:
        return Content("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> list[Content]:
        lines = [self._title]
        for start, text in self._rows:
            first, *others = Content(text).wrap(max(1, width - start.cell_length))
            lines += [start + first, *(other.pad_left(start.cell_length) for other in others)]
        return [*lines, Content("")]


def _row(key: str, command: str, text: str) -> tuple[Content, str]:
    """How the row begins, and what is wrapped."""
    if len(command) > _COMMAND:  # a long argument goes after the words
        command, _, argument = command.partition(" ")
        text = f"{text}  {argument}"
    known = f"{command:<{_COMMAND}}  " if command else ""
    return Content.assemble((f"{key:<8}", "bold"), (known, "$muted")), text
