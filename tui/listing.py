"""What the list of conversations shows: those found by a search, here or among the archived ones.

Knows no keys and no engine.
"""

from edgellm.tui.chat import Conversation
from edgellm.tui.desk import Desk
from edgellm.tui.history import History, Store
from edgellm.tui.session import Session
from edgellm.tui.widgets.conversation_list import ConversationList
from edgellm.tui.widgets.leaving import while_shown


class Listing:
    """Draws into `shown`. is_archived: the archived ones are listed, not the others."""

    def __init__(
        self, history: History, session: Session, desk: Desk, shown: ConversationList
    ) -> None:
        self.is_archived = False
        self._history = history
        self._session = session
        self._desk = desk
        self._shown = shown
        self._query = ""
        self._version = 0  # of the history, as this program has seen it last

    async def draw(self) -> list[Conversation]:
        """Draws the list; what is in it."""
        found = await self._history.ask(Store.conversations, self._query, self.is_archived)
        busy = self._session.busy()
        with while_shown(self._shown):
            self._shown.show(found, self._desk.chat.id, busy, self._desk.unseen, self.is_archived)
        return found

    async def search(self, query: str) -> list[Conversation]:
        """Draws those that hold a text; which they are."""
        self._query = query
        return await self.draw()

    async def look(self) -> None:
        """Draws what another program has written meanwhile."""
        version = await self._history.ask(Store.version)
        if version != self._version:
            self._version = version
            await self.draw()
