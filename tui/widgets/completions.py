"""What the word before the cursor may become: a command after /, a path after @."""

import os
import re
from collections.abc import Iterator, Sequence

from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from edgellm.tui.attachments import mention

_MOST = 8
_MOST_ENTRIES = 2000  # of one folder that are looked at
_WORD = re.compile(r'@"?[\w~./\\ -]*$|@\S*$')


class Completions(OptionList, can_focus=False):
    """Shown while there is something to offer. commands: (name, help) of each."""

    def __init__(self, commands: Sequence[tuple[str, str]]) -> None:
        super().__init__(id="completions", compact=True)
        self._commands = commands
        self._offered: tuple[str, bool] | None = None  # what the list is for
        self.word = ""  # what would be replaced
        self.is_chosen = False  # whether the user has walked through the list

    def on_mount(self) -> None:
        self.hide()

    @property
    def chosen(self) -> str | None:
        """The one that is marked."""
        return None if self.highlighted is None else self.get_option_at_index(self.highlighted).id

    def offer(self, before: str, at_start: bool) -> None:
        """before: the line up to the cursor; at_start: it is the first one. The same once more
        changes nothing: a list that was hidden stays so."""
        if (before, at_start) == self._offered:
            return
        self._offered = before, at_start
        found: list[tuple[str, str]] = []
        if at_start and before.startswith("/") and " " not in before:
            self.word = before
            matching = (item for item in self._commands if item[0].startswith(before[1:]))
            found = [(f"/{name}", text) for name, text in matching][:_MOST]
        elif word := _WORD.search(before):
            self.word = word[0]
            found = [(mention(path), "") for path in list(_paths(word[0][1:].strip('"')))[:_MOST]]
        self.clear_options()
        if not found or [name for name, _ in found] == [self.word]:
            self.hide()
            return
        width = max(len(name) for name, _ in found)
        self.add_options(
            Option(Content.assemble(f"{name:<{width}}  ", (text, "$muted")), id=name)
            for name, text in found
        )
        self.highlighted, self.is_chosen, self.display = 0, before.startswith("/"), True

    def move(self, step: int) -> None:
        """Marks the next one or the one before."""
        self.is_chosen = True
        if step > 0:
            self.action_cursor_down()
        else:
            self.action_cursor_up()

    def hide(self) -> None:
        self.display = self.is_chosen = False


def _paths(begun: str) -> Iterator[str]:
    """The files and folders that a path may be going to name, folders with a slash."""
    folder, _, name = begun.rpartition("/")
    where = os.path.expanduser(f"{folder}/" if "/" in begun else ".")
    try:
        with os.scandir(where) as entries:
            listed = [entry for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False)]
    except (OSError, ValueError):  # no such folder, or text that can name none
        return
    for entry in sorted(listed, key=lambda entry: entry.name):
        hidden = entry.name.startswith(".") and not name.startswith(".")
        if entry.name.startswith(name) and not hidden:
            prefix = f"{folder}/" if "/" in begun else ""
            yield f"{prefix}{entry.name}" + ("/" if entry.is_dir() else "")
