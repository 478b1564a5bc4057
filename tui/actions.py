"""Everything that can be done, in one table: each row has its key, its slash command and its entry
in the command palette."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgellm.tui.handlers import answers, chats, files, views

if TYPE_CHECKING:
    from edgellm.tui.app import ChatApp

Handler = Callable[["ChatApp", str], Awaitable[None]]


@dataclass(frozen=True)
class Action:
    """name: the slash command. argument: what it may be given there; the handler gets "" when it
    is left out. group: its heading in the help."""

    name: str
    key: str
    title: str
    group: str
    run: Handler
    argument: str = ""

    @property
    def shown_key(self) -> str:
        """The key as people write it."""
        names = {"ctrl": "Ctrl", "alt": "Alt", "escape": "Esc", "left": "←", "right": "→"}
        names |= {"up": "↑", "down": "↓"}
        return "+".join(names.get(part, part.upper()) for part in self.key.split("+"))


ACTIONS: tuple[Action, ...] = (
    Action("stop", "escape", "Stop writing", "Answers", answers.stop),
    Action("regenerate", "ctrl+r", "Answer again", "Answers", answers.regenerate),
    Action("continue", "ctrl+g", "Go on with the answer", "Answers", answers.go_on),
    Action("edit", "f4", "Edit a message and send it again", "Answers", answers.edit),
    Action("previous", "alt+left", "Branch to the left", "Answers", answers.previous),
    Action("next", "alt+right", "Branch to the right", "Answers", answers.following),
    Action(
        "compare", "f7", "Compare two answers", "Answers", answers.compare, "MODEL or NAME=VALUE"
    ),
    Action("alternatives", "f8", "What it might have said", "Answers", answers.alternatives),
    Action("delete", "alt+d", "Delete the message", "Answers", answers.delete),
    Action("new", "ctrl+n", "New chat", "Chats", chats.new),
    Action("search", "f3", "Search all chats", "Chats", chats.search, "TEXT"),
    Action("fork", "f5", "Copy up to here into a new chat", "Chats", chats.fork),
    Action("rename", "f2", "Rename the chat", "Chats", chats.rename, "TITLE"),
    Action("pin", "alt+p", "Pin or unpin the chat", "Chats", chats.pin),
    Action("archive", "alt+a", "Archive the chat, or bring it back", "Chats", chats.archive),
    Action("archived", "alt+z", "Show archived chats, or the others", "Chats", chats.archived),
    Action("remove", "alt+x", "Delete the chat", "Chats", chats.remove),
    Action("system", "f6", "Instructions for the model", "Chats", chats.system, "TEXT"),
    Action("attach", "ctrl+o", "Attach a file or a folder", "Files", files.attach, "PATH"),
    Action("save", "ctrl+s", "Save as .md or .json", "Files", files.save, "FILE"),
    Action("import", "alt+i", "Open a saved chat", "Files", files.load, "FILE"),
    Action("copy", "alt+c", "Copy the answer", "Files", files.copy),
    Action("code", "alt+k", "Copy the chosen or last code block", "Files", files.copy_code),
    Action("schema", "alt+j", "Answers as a JSON schema says", "Files", files.schema, "FILE"),
    Action("model", "ctrl+l", "Choose a model", "View", views.model, "NAME"),
    Action("settings", "ctrl+t", "Sampling settings", "View", views.settings, "NAME=VALUE"),
    Action(
        "think", "alt+r", "Thinking on or off", "View", views.think, "off, on, low, medium, high"
    ),
    Action("chats", "ctrl+b", "List of chats", "View", views.chats),
    Action("above", "alt+up", "Choose the code block above", "View", views.code_above),
    Action("below", "alt+down", "Choose the code block below", "View", views.code_below),
    Action("thoughts", "alt+h", "Show or hide the thoughts", "View", views.thoughts),
    Action("raw", "f9", "The prompt as the model sees it", "View", views.raw),
    Action("engine", "alt+e", "What the engine is doing", "View", views.engine),
    Action("theme", "alt+t", "Next theme", "View", views.theme, "NAME"),
    Action("help", "f1", "Help", "View", views.show_help),
    Action("quit", "ctrl+q", "Quit", "View", views.leave),
)
# As programs of this kind call some of them.
_OTHER_NAMES = {"bye": "quit", "exit": "quit", "clear": "new", "export": "save", "?": "help"}
_NAMES = {action.name: action for action in ACTIONS}
BY_NAME = _NAMES | {other: _NAMES[name] for other, name in _OTHER_NAMES.items()}
