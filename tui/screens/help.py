"""All actions with their keys and commands."""

from collections.abc import Iterable
from itertools import groupby
from typing import Protocol

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from edgellm.tui.screens.dialog import Dialog

_EDITOR = (
    ("Enter", "sends; Ctrl+J begins a new line"),
    ("↑ ↓", "what was typed before, at the first and the last line"),
    ("@path", "attaches a file, or the text files of a folder"),
    ("/", "lists the commands; Tab completes"),
    ("Tab", "to the messages and back: actions are about the focused one"),
)


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
            yield Static(_table("Prompt", [(key, "", text) for key, text in _EDITOR]))
            for group, actions in groupby(self._actions, lambda action: action.group):
                rows = [
                    (action.shown_key, f"/{action.name} {action.argument}".rstrip(), action.title)
                    for action in actions
                ]
                yield Static(_table(group, rows))


def _table(title: str, rows: list[tuple[str, str, str]]) -> Content:
    lines = [Content.styled(title, "bold $accent")]
    for key, command, text in rows:
        known = f"{command:<14}  " if command else ""
        if len(command) > 14:  # a long argument goes after the words
            command, _, argument = command.partition(" ")
            known, text = f"{command:<14}  ", f"{text}  {argument}"
        lines.append(Content.assemble((f"{key:<8}", "bold"), (known, "$muted"), text))
    return Content("\n").join([*lines, Content("")])
