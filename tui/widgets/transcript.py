"""The messages of one conversation, the newest at the bottom. Old ones are drawn when asked for."""

import asyncio

from textual import on
from textual.containers import VerticalScroll
from textual.widgets import Button, Static

from edgellm.tui.chat import Chat
from edgellm.tui.session import Session
from edgellm.tui.widgets.message_view import MessageView

_SHOWN = 10  # messages drawn at first, and more with each press of the button

_WELCOME = """\
Ask anything. Everything stays on this machine.

[$muted]Enter sends · Ctrl+J begins a new line
@file attaches · / lists the commands · F1 helps[/]\
"""


class Transcript(VerticalScroll, can_focus=False):
    """Follows the end of an answer that is being written, unless the user has scrolled up."""

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self._chat: int | None = None
        self._limit = _SHOWN
        self._drawing = asyncio.Lock()

    def on_mount(self) -> None:
        self.anchor()

    @property
    def views(self) -> list[MessageView]:
        return list(self.query(MessageView))

    @property
    def focused_view(self) -> MessageView | None:
        """The message that has the focus."""
        return next((view for view in self.views if view.has_focus), None)

    async def show(self, chat: Chat, session: Session) -> None:
        """Draws what differs from what is drawn already."""
        async with self._drawing:
            await self._show(chat, session)

    async def _show(self, chat: Chat, session: Session) -> None:
        if self._chat != chat.id:
            self._chat, self._limit = chat.id, _SHOWN
            await self.remove_children()
            self.anchor()
        path = chat.path()
        shown = path[-self._limit :]
        wanted = [message.id for message in shown]
        views = self.views
        same = 0
        while same < len(views) and same < len(wanted) and views[same].message.id == wanted[same]:
            same += 1
        await self.query(".placeholder, #earlier").remove()
        for view in views[same:]:
            await view.remove()
        for message in shown[same:]:
            await self.mount(MessageView(message, _place(chat, message.id)))
        for view in self.views:
            message = chat.messages[view.message.id]
            if generation := session.generation(chat, message.id):
                view.follow(generation)
            await view.show(message, _place(chat, message.id))
        if not path:
            await self.mount(Static(_WELCOME, classes="placeholder"))
        elif len(path) > len(shown):
            label = f"{len(path) - len(shown)} earlier messages"
            await self.mount(Button(label, id="earlier", compact=True), before=0)

    @on(Button.Pressed, "#earlier")
    def _show_more(self, event: Button.Pressed) -> None:
        """The app draws again, with more messages than before."""
        self._limit += _SHOWN


def _place(chat: Chat, message: int) -> tuple[int, int]:
    ids = [sibling.id for sibling in chat.siblings(chat.messages[message])]
    return ids.index(message) + 1, len(ids)
