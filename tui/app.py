"""The chat: puts the parts of the screen together, and does what the actions ask for.

Nothing here may block: the engine is asked asynchronously, the history has its own thread, and
answers are drawn in small pieces.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from textual import on
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding
from textual.containers import Vertical
from textual.notifications import SeverityLevel
from textual.screen import ModalScreen, Screen
from textual.widgets import Button, TextArea

from edgellm.errors import EdgeLLMError
from edgellm.tui import interpreter
from edgellm.tui.actions import ACTIONS, BY_NAME, Action
from edgellm.tui.chat import Chat, Conversation, Message
from edgellm.tui.desk import Desk
from edgellm.tui.doors import Engine, Library
from edgellm.tui.generation import Generation
from edgellm.tui.handlers import chats, views
from edgellm.tui.handlers.prompt import submit
from edgellm.tui.history import History, Store
from edgellm.tui.listing import Listing
from edgellm.tui.palette import Actions
from edgellm.tui.screens.chat import ChatScreen
from edgellm.tui.session import Session
from edgellm.tui.status import status_of
from edgellm.tui.themes import THEMES
from edgellm.tui.widgets.attachment_bar import AttachmentBar
from edgellm.tui.widgets.completions import Completions
from edgellm.tui.widgets.conversation_list import ConversationList
from edgellm.tui.widgets.editor import Editor
from edgellm.tui.widgets.markdown_part import load_lexers
from edgellm.tui.widgets.settings_panel import SettingsPanel
from edgellm.tui.widgets.status_bar import StatusBar
from edgellm.tui.widgets.transcript import Transcript
from edgellm.types import LoadOptions

T = TypeVar("T")

_TICK = 0.25  # seconds between two looks at what the status bar shows
_LOOK = 2.0  # seconds between two looks at what other programs do


class ChatApp(App[None]):
    """The chat. model: a name or path; None is the one used last, or what the user chooses."""

    TITLE = "edgellm"
    CSS_PATH = "style.tcss"
    COMMANDS = {Actions}
    COMMAND_PALETTE_BINDING = "ctrl+p"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]
    BINDINGS = [
        Binding(action.key, f"act('{action.name}')", action.title, show=False, priority=True)
        for action in ACTIONS
    ]
    actions = ACTIONS

    def __init__(
        self,
        engine: Engine,
        library: Library,
        history: Path,
        model: str | None = None,
        load_options: LoadOptions | None = None,
    ) -> None:
        super().__init__()
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = THEMES[0].name
        self.library = library
        self.history = History(history, self._history_failed, self._history_mended)
        self.session = Session(engine, self._save_message, self._note, self._changed, load_options)
        self.desk = Desk(self.history, self.session, Chat(Conversation(model=model)))
        self.sidebar = ConversationList()
        self.listing = Listing(self.history, self.session, self.desk, self.sidebar)
        self.transcript = Transcript()
        self.completions = Completions([(action.name, action.title) for action in ACTIONS])
        self.editor = Editor(self.completions)
        self.settings_panel = SettingsPanel()
        self._attachments = AttachmentBar(
            lambda text: self.session.count_tokens(self.chat.conversation.model, text),
            lambda: self.session.context_length(self.chat.conversation.model),
        )
        self._status_bar = StatusBar(id="status")
        self._memory: int | None = None

    # The parts of the screen.

    def get_default_screen(self) -> ChatScreen:
        return ChatScreen(id="_default")

    def compose(self) -> ComposeResult:
        yield self.sidebar
        with Vertical(id="main"):
            yield self.transcript
            with Vertical(id="foot"):
                yield self.completions
                with Vertical(id="prompt"):
                    yield self.editor
                    yield self._attachments
        yield self.settings_panel
        yield self._status_bar

    @property
    def selected(self) -> Message | None:
        """The message that has the focus."""
        view = self.transcript.focused_view
        return None if view is None else self.chat.messages.get(view.message.id)

    async def show_settings(self, shown: bool) -> None:
        if shown:
            await self.settings_panel.open()
            self._show_settings()
        else:
            self.settings_panel.display = False
            self.editor.focus()

    # Beginning and end.

    async def on_mount(self) -> None:
        self.editor.focus()
        moved_aside = await self.history.open()
        if moved_aside is not None:
            self.notify(
                f"The history was damaged. It is kept as {moved_aside}, and a new one has begun.",
                severity="warning",
                markup=False,
                timeout=30,
            )
        self.editor.said = await self.history.ask(Store.said)
        await self._look_around()
        await self.refresh_chat()
        self.set_interval(_TICK, self._show_status)
        self.set_interval(_LOOK, self._look_around)
        self.set_interval(
            interpreter.COLLECT_EVERY, lambda: interpreter.collect(bool(self.session.busy()))
        )
        self.run_worker(self.attempt(views.choose_first_model(self)))
        self.run_worker(asyncio.to_thread(load_lexers))

    async def on_unmount(self) -> None:
        await self.session.close()
        await self.history.close()

    # Actions.

    def do(self, action: Action, argument: str = "") -> None:
        """Begins an action; what goes wrong is told."""
        self.run_worker(self.attempt(action.run(self, argument)), group="actions")

    def action_act(self, name: str) -> None:
        self.do(BY_NAME[name])

    def action_help_quit(self) -> None:
        """Ctrl+C where nothing is selected to be copied: stops an answer, and never ends the chat,
        as in the plain loop."""
        if self.session.generation(self.chat) is not None:
            self.do(BY_NAME["stop"])
        else:
            self.notify(f"{BY_NAME['quit'].shown_key} quits")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A screen over the conversation has its own keys."""
        return action != "act" or not isinstance(self.screen, ModalScreen)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        yield from ()  # the actions have them all

    async def attempt(self, work: Awaitable[None]) -> None:
        """Awaits it, and tells what the user can do about an error."""
        try:
            await work
        except EdgeLLMError as error:
            text = str(error)
            if text == self.session.failure:  # all of it stays on the screen
                text = text.partition("\n")[0]
            self.notify(text, severity="error", markup=False, timeout=10)

    def ask(self, screen: ModalScreen[T], then: Callable[[T], Awaitable[None]]) -> None:
        """Shows a screen, and goes on with what the user decided there."""

        async def decided(result: T | None) -> None:
            if result is not None:
                await self.attempt(then(result))

        self.push_screen(screen, decided)

    # The conversation that is shown.

    @property
    def chat(self) -> Chat:
        """The conversation that is shown."""
        return self.desk.chat

    async def open(self, chat: Chat) -> None:
        """Shows a conversation."""
        self.desk.show(chat)
        await self.refresh_chat()
        self._show_settings()

    async def refresh_chat(self) -> None:
        """Draws what has changed of the conversation."""
        await self.transcript.show(self.chat, self.session)
        self._show_status()
        await self.listing.draw()

    async def change(self, **changes: Any) -> None:
        """Changes fields of the conversation, and saves it if there is anything in it."""
        self.chat.change(**changes)
        self.desk.save()
        self._show_settings()
        await self.refresh_chat()

    @on(Editor.Submitted)
    def _submit(self, event: Editor.Submitted) -> None:
        submit(self, event.text)

    @on(TextArea.Changed, "#editor")
    def _show_attachments(self) -> None:
        self._attachments.show(self.editor.text)

    @on(SettingsPanel.Changed)
    def _set(self, event: SettingsPanel.Changed) -> None:
        self.chat.change(settings=event.settings)
        self.desk.save()

    @on(Button.Pressed, "#earlier")
    async def _show_earlier(self) -> None:
        await self.transcript.show(self.chat, self.session)

    def _show_settings(self) -> None:
        if not self.settings_panel.display:
            return
        info = self.session.known(self.chat.conversation.model)
        advised = info.sampling if info else {}
        self.settings_panel.show(self.chat.conversation.settings, advised)

    # The list of conversations.

    @on(ConversationList.Searched)
    async def _search(self, event: ConversationList.Searched) -> None:
        found = await self.listing.search(event.query)
        if event.take_first and found:
            await chats.show(self, found[0].id)

    @on(ConversationList.Chosen)
    async def _choose(self, event: ConversationList.Chosen) -> None:
        await chats.show(self, event.conversation)

    async def _look_around(self) -> None:
        """What other programs have written, and what the engine holds in memory."""
        await self.listing.look()
        self._memory = await asyncio.to_thread(self.session.memory)

    # What the parts below tell.

    def _changed(self, generation: Generation | None) -> None:
        """An answer has begun or ended, or a model is being loaded."""
        is_over = generation is not None and generation.message.finish_reason is not None
        if generation is not None and is_over and self.desk.ended(generation.chat):
            self.bell()
        if self.is_running:
            self.call_later(self._after_change)

    async def _after_change(self) -> None:
        self._show_settings()
        if self.chat.messages:
            self._show_status()
            await self.listing.draw()
        else:
            await self.refresh_chat()  # what is shown instead depends on the model

    # These three may be called in any thread.

    def _note(self, text: str, severity: SeverityLevel = "information") -> None:
        self.call_later(self.notify, text, severity=severity, markup=False, timeout=10)

    def _history_failed(self, error: Exception) -> None:
        self._note(f"the history is not written: {error}", "error")

    def _history_mended(self) -> None:
        self.call_later(self.desk.save_all)
        self._note("the history is written again")

    def _save_message(self, conversation: int, message: Message) -> None:
        self.history.tell(Store.save_message, conversation, message)

    def _show_status(self) -> None:
        self._status_bar.status = status_of(self.chat, self.session, self._memory)
