"""The messages of one conversation, the newest at the bottom. Old ones are drawn when asked for."""

import asyncio

from textual import on
from textual.content import Content
from textual.geometry import Spacing
from textual.widgets import Button, Static

from edgellm.tui.chat import Chat, Message
from edgellm.tui.session import Session
from edgellm.tui.widgets.answer import Answer
from edgellm.tui.widgets.fold import Fold
from edgellm.tui.widgets.following import Following
from edgellm.tui.widgets.leaving import while_shown
from edgellm.tui.widgets.markdown_part import CodeBlock
from edgellm.tui.widgets.message_view import MessageView

_SHOWN = 10  # messages drawn at first, and more with each press of the button

_ASK = """\
Ask anything. It stays on this machine.

[$muted]Enter sends · Ctrl+J begins a new line
@file attaches · / lists the commands
F1 helps[/]\
"""
_CHOOSE = """\
No model is chosen yet.

[$muted]Ctrl+L lists the models[/]\
"""
_AGAIN = "[$muted]A message tries again · Ctrl+L lists the models[/]"
WELCOMES = (_ASK, _CHOOSE, _AGAIN)


class Transcript(Following, can_focus=False):
    """The end of an answer that is being written is in sight, unless the user has scrolled up."""

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self._chat: int | None = None
        self._limit = _SHOWN
        self._drawing = asyncio.Lock()
        self._folds: list[Fold] = []

    @property
    def views(self) -> list[MessageView]:
        return [child for child in self.children if isinstance(child, MessageView)]

    @property
    def focused_view(self) -> MessageView | None:
        """The message in which the focus is."""
        focused = self.screen.focused
        around = focused.ancestors_with_self if focused else ()
        return next((view for view in self.views if view in around), None)

    @property
    def focused_code(self) -> CodeBlock | None:
        focused = self.screen.focused
        return focused if isinstance(focused, CodeBlock) else None

    def focus_code(self, step: int) -> bool:
        """Moves among the code blocks of the message that has the focus, or of the last one that
        has any; whether there is one."""
        chosen = [self.focused_view] if self.focused_view else self.views[::-1]
        blocks = next((found for view in chosen if (found := view.code_blocks)), [])
        if not blocks:
            return False
        now = self.focused_code
        at = blocks.index(now) + step if now in blocks else min(step, 0)
        block = blocks[at % len(blocks)]
        for widget in block.ancestors:
            if isinstance(widget, Fold):
                widget.unfold()
        block.focus()
        return True

    async def show(self, chat: Chat, session: Session) -> None:
        """Draws what differs from what is drawn already."""
        async with self._drawing:
            with while_shown(self):
                await self._show(chat, session)

    async def _show(self, chat: Chat, session: Session) -> None:
        if self._chat != chat.id:
            self._chat, self._limit = chat.id, _SHOWN
            await self.remove_children()
            self.anchor()
        path = chat.path()
        shown = path[-self._limit :]
        wanted = [message.id for message in shown]
        places = {message.id: _place(chat, message) for message in shown}

        def view_of(message: Message) -> MessageView:
            return MessageView(message, places[message.id], session.errors.get(message.id))

        views = self.views
        await self.query_children("#earlier").remove()
        await self._welcome(chat, session)
        drawn = [view.message.id for view in views]
        if drawn and drawn == wanted[-len(drawn) :]:
            earlier = shown[: -len(drawn)]
            await self.mount_all([view_of(message) for message in earlier], before=0)
            views = self.views
        same = 0
        while same < len(views) and same < len(wanted) and views[same].message.id == wanted[same]:
            same += 1
        for view in views[same:]:
            await view.remove()
        for message in shown[same:]:
            await self.mount(view_of(message))
        for view in self.views:
            now = chat.messages.get(view.message.id)
            if now is None:
                continue  # deleted while the others were drawn, and soon drawn without it
            if generation := session.generation(chat, now.id):
                view.follow(generation)
            await view.show(now, places[now.id], session.errors.get(now.id))
        if len(path) > len(shown):
            label = f"{len(path) - len(shown)} earlier messages"
            await self.mount(Button(label, id="earlier", compact=True), before=0)

    async def _welcome(self, chat: Chat, session: Session) -> None:
        """What to do first, in place of messages; where the model could not be had, why."""
        shown = next(iter(self.query_children(".placeholder").results(Static)), None)
        if chat.head is not None:
            if shown is not None:
                await shown.remove()
            return
        if shown is None:
            shown = Static(classes="placeholder")
            await self.mount(shown)
        model, failure = chat.conversation.model, session.failure
        is_failed = bool(failure) and session.known(model) is None
        if is_failed:
            why = Content.styled(f"{failure}\n\n", "$error")
            shown.update(why + Content.from_markup(_AGAIN))
        else:
            shown.update(_CHOOSE if model is None else _ASK)
        shown.set_class(is_failed, "failed")

    # What is out of sight is folded, or every addition would cost more the longer the text is.

    @on(Fold.Closed)
    def _remember(self, event: Fold.Closed) -> None:
        event.stop()
        self._folds.append(event.fold)

    @on(Answer.Grown)
    def _look_soon(self) -> None:
        self.call_after_refresh(self._look)

    def _look(self) -> None:
        self._folds = [fold for fold in self._folds if fold.is_attached]
        height = self.size.height
        sight = self.region.grow(Spacing(height, 0, height, 0))  # a page more on both sides
        for fold in self._folds:
            fold.look(sight)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._look_soon()

    def on_resize(self) -> None:
        for fold in self._folds:
            fold.unfold()
        self._look_soon()

    @on(Button.Pressed, "#earlier")
    def _show_more(self, event: Button.Pressed) -> None:
        """The app draws again, with more messages than before."""
        self._limit += _SHOWN


def _place(chat: Chat, message: Message) -> tuple[int, int]:
    """Which of how many branches it is."""
    ids = [sibling.id for sibling in chat.siblings(message)]
    return ids.index(message.id) + 1, len(ids)
