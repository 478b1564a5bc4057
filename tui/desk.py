"""The conversations that are open: the one that is shown, and those in which an answer is written.

What is changed in them here is saved. Knows no screen.
"""

from edgellm.tui.chat import Chat, Message
from edgellm.tui.history import History, Store
from edgellm.tui.session import Session


class Desk:
    """chat: the one that is shown. unseen: those with an answer that nobody has seen yet."""

    def __init__(self, history: History, session: Session, chat: Chat) -> None:
        self.chat = chat
        self.unseen: set[int] = set()
        self._history = history
        self._session = session
        self._open: dict[int, Chat] = {}

    async def find(self, conversation: int) -> Chat | None:
        """A conversation, open or stored; None when it has been deleted."""
        chat = self._open.get(conversation)
        return chat or await self._history.ask(Store.load, conversation)

    def show(self, chat: Chat) -> None:
        """Takes another one to the front."""
        left, self.chat = self.chat, chat
        if left.id not in self._session.busy():
            self._open.pop(left.id, None)
        self._open[chat.id] = chat
        self.unseen.discard(chat.id)

    def ended(self, chat: Chat) -> bool:
        """An answer in it has come to its end; whether nobody has seen that."""
        if chat is self.chat:
            return False
        self.unseen.add(chat.id)
        if chat.id not in self._session.busy():
            self._open.pop(chat.id, None)
        return True

    def put(self, message: Message) -> None:
        """Adds a message at the head of the branch that is shown."""
        self._open[self.chat.id] = self.chat
        self.chat.put(message)
        self._history.tell(Store.save, self.chat.conversation, [message])

    def forget(self, messages: list[int]) -> None:
        """Deletes messages that are no longer in the conversation."""
        self._history.tell(Store.remove_messages, messages)
        self.save()

    def save(self) -> None:
        """Keeps what has changed of the conversation, if there is anything in it."""
        if self.chat.messages:
            self._history.tell(Store.save, self.chat.conversation)

    def save_all(self) -> None:
        """Keeps all that is open as a whole: some of it may not have been written."""
        for chat in {**self._open, self.chat.id: self.chat}.values():
            if chat.messages:
                self.add(chat)

    def add(self, chat: Chat) -> None:
        """Keeps a conversation that is new as a whole."""
        self._history.tell(Store.save, chat.conversation, list(chat.messages.values()))

    def remove(self) -> None:
        """Deletes the conversation that is shown."""
        self._history.tell(Store.remove, self.chat.id)
        self._open.pop(self.chat.id, None)
