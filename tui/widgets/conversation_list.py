"""The list of conversations: searched, grouped by age, with a mark for what goes on in each."""

import time
from collections.abc import Iterable, Iterator, Set as AbstractSet

from rich.cells import cell_len, set_cell_size
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from edgellm.tui.chat import Conversation

_DAY = 86400.0
BUSY, DONE, PINNED = "◌", "●", "◆"


class ConversationList(Vertical):
    """Posts Chosen and Searched."""

    class Chosen(Message):
        def __init__(self, conversation: int) -> None:
            super().__init__()
            self.conversation = conversation

    class Searched(Message):
        def __init__(self, query: str) -> None:
            super().__init__()
            self.query = query

    def __init__(self) -> None:
        super().__init__(id="sidebar")
        self._list = OptionList(id="conversations", compact=True)

    def compose(self) -> ComposeResult:
        yield Input(placeholder="Search chats", id="search", compact=True)
        yield self._list

    def show(
        self,
        conversations: Iterable[Conversation],
        current: int,
        busy: AbstractSet[int],
        done: AbstractSet[int],
    ) -> None:
        """busy: those with an answer under way; done: with one that nobody has seen yet."""
        options = list(self._options(list(conversations), busy, done))
        self._list.clear_options().add_options(options)
        ids = [option.id for option in options]
        self._list.highlighted = ids.index(str(current)) if str(current) in ids else None

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
    def _to_list(self, event: Input.Submitted) -> None:
        event.stop()
        self._list.focus()


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
