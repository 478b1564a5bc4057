"""The sampling settings of a conversation, one row per option. Knows no engine."""

from collections.abc import Iterator, Mapping
from typing import Any

from textual import on
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Label, Static

from edgellm.errors import RequestError
from edgellm.tui.options import FIRST, SHOWN, THINKING, label, parse, show


class SettingsPanel(VerticalScroll, can_focus=False):
    """Posts Changed with all settings that differ from the model's, when one is changed. Its many
    fields are made when it is opened for the first time."""

    class Changed(Message):
        def __init__(self, settings: dict[str, Any]) -> None:
            super().__init__()
            self.settings = settings

    def __init__(self) -> None:
        super().__init__(id="settings")
        self._settings: dict[str, Any] = {}
        self._fields = {name: Input(name=name, compact=True) for name in SHOWN}

    def on_mount(self) -> None:
        self.display = False

    async def open(self) -> None:
        self.display = True
        if not self.children:
            await self.mount_all(self._parts())
        self._fields[FIRST[0]].focus()

    def _parts(self) -> Iterator[Widget]:
        yield Static("Sampling", classes="title")
        yield Static("An empty field is the model's own value.", classes="hint")
        yield Static(id="setting-error", markup=False)
        for name in (*FIRST, THINKING.name):
            yield self._row(name)
        yield Static("More", classes="title more")
        for name in SHOWN:
            if name not in (*FIRST, THINKING.name):
                yield self._row(name)

    def _row(self, name: str) -> Widget:
        row = Horizontal(Label(label(SHOWN[name])), self._fields[name], classes="setting")
        return row.with_tooltip(SHOWN[name].help)

    def show(self, settings: Mapping[str, Any], advised: Mapping[str, Any]) -> None:
        """settings: of the conversation. advised: of the model, shown where nothing is set."""
        self._settings = dict(settings)
        for name, option in SHOWN.items():
            field = self._fields[name]
            unset = "auto" if option is THINKING else "none"
            field.placeholder = show(advised.get(name, option.default)) or unset
            if not field.has_focus:
                with field.prevent(Input.Changed):
                    field.value = show(settings.get(name))

    @on(Input.Changed)
    def _change(self, event: Input.Changed) -> None:
        event.stop()
        error = self._take(event.input.name or "", event.value)
        event.input.set_class(bool(error), "-invalid")
        message = self.query_one("#setting-error", Static)
        message.update(error)
        message.display = bool(error)
        if not error:
            self.post_message(self.Changed(dict(self._settings)))

    def _take(self, name: str, text: str) -> str:
        """What is wrong with a value; "" when it is taken."""
        if not text.strip():
            self._settings.pop(name, None)
            return ""
        try:
            self._settings[name] = parse(SHOWN[name], text)
        except RequestError as error:
            return str(error)
        return ""
