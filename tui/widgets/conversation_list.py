"""The list of conversations: searched, grouped by age, with a mark for what goes on in each."""

import time
from collections.abc import Iterable, Iterator, Set as AbstractSet

from rich.cells import cell_len, set_cell_size
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key
from textual.message import Message
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from edgellm.tui.chat import Conversation

_DAY = 86400.0
BUSY, DONE, PINNED = "◌", "●", "◆"


class ConversationList(Vertical):
    """Posts Chosen, and Searched while a search is typed. Enter in the search takes the first one
    found, down goes to the list."""

    class Chosen(Message):
        def __init__(self, conversation: int) -> None:
            super().__init__()
            self.conversation = conversation

    class Searched(Message):
        def __init__(self, query: str, take_first: bool = False) -> None:
            super().__init__()
            self.query = query
            self.take_first = take_first

    def __init__(self) -> None:
        super().__init__(id="sidebar")
        self._list = OptionList(id="conversations", compact=True)
        self._shown: object = None  # what is drawn already

    def compose(self) -> ComposeResult:
        yield Input(placeholder="Search chats", id="search", compact=True)
        yield Static(classes="none")
        yield self._list

    def open(self, is_open: bool) -> None:
        """On a narrow screen it is closed until it is opened, on a wide one open until closed."""
        self.set_class(not is_open, "-hidden")
        self.set_class(is_open, "-shown")

    def show(
        self,
        conversations: Iterable[Conversation],
        current: int,
        busy: AbstractSet[int],
        done: AbstractSet[int],
        archived: bool = False,
    ) -> None:
        """busy: those with an answer under way; done: with one that nobody has seen yet. archived:
        these are the archived ones."""
        search, none = self.query_one(Input), self.query_one(".none", Static)
        search.placeholder = "Search archived chats" if archived else "Search chats"
        options = list(self._options(list(conversations), busy, done))
        nothing = "No archived chats" if archived else "No chats yet"
        none.update("Nothing found" if search.value.strip() else nothing)
        none.display = not options
        rows = [(option.id, option.prompt) for option in options]
        if (rows, current) == self._shown:
            return
        self._shown = rows, current
        marked = self._list.highlighted_option if self._list.has_focus else None
        chosen = marked.id if marked else str(current)  # the user may be walking through it
        self._list.clear_options().add_options(options)
        ids = [option.id for option in options]
        self._list.highlighted = ids.index(chosen) if chosen in ids else None

    def _options(
        self, conversations: list[Conversation], busy: AbstractSet[int], done: AbstractSet[int]
    ) -> Iterator[Option]:
        group = None
        for conversation in conversations:
            if (new := _group(conversation)) != group:
                group = new
                yield Option(Content.styled(new, "$muted"), disabled=True)
            mark, style = "", ""
            if conversation.id in busy:
                mark, style = BUSY, "$accent"
            elif conversation.id in done:
                mark, style = DONE, "$accent"
            elif conversation.pinned:
                mark, style = PINNED, "$muted"
            title = Content.styled(_fit(conversation.title), "bold" if mark == DONE else "")
            prompt = Content.assemble((f"{mark or ' '} ", style), title)
            yield Option(prompt, id=str(conversation.id))

    @on(OptionList.OptionSelected, "#conversations")
    def _choose(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_id is not None:
            self.post_message(self.Chosen(int(event.option_id)))

    @on(Input.Changed, "#search")
    def _search(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Searched(event.value.strip()))

    @on(Input.Submitted, "#search")
    def _take_first(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Searched(event.value.strip(), take_first=True))

    def on_key(self, event: Key) -> None:
        if event.key == "down" and not self._list.has_focus:
            event.stop()
            self._list.focus()
            self._list.action_first()


def _group(conversation: Conversation) -> str:
    if conversation.pinned:
        return "Pinned"
    midnight = time.mktime((*time.localtime()[:3], 0, 0, 0, 0, 0, -1))
    if conversation.updated >= midnight:
        return "Today"
    return "This week" if conversation.updated >= midnight - 6 * _DAY else "Earlier"


def _fit(title: str, cells: int = 24) -> str:
    """One line of so many cells at most."""
    title = " ".join(title.split())
    return title if cell_len(title) <= cells else set_cell_size(title, cells - 1).rstrip() + "…"
