"""The sampling settings of a conversation, one row per option. Knows no engine."""

from collections.abc import Mapping
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.widgets import Input, Label, Static

from edgellm.tui.options import Option, options


class SettingsPanel(VerticalScroll, can_focus=False):
    """Posts Changed with all settings that differ from the model's, when one is changed."""

    class Changed(Message):
        def __init__(self, settings: dict[str, Any]) -> None:
            super().__init__()
            self.settings = settings

    def __init__(self) -> None:
        super().__init__(id="settings")
        self._options = {option.name: option for option in options()}
        self._settings: dict[str, Any] = {}
        self._fields = {name: Input(id=f"setting-{name}", compact=True) for name in self._options}

    def compose(self) -> ComposeResult:
        yield Static("Sampling", classes="title")
        for option in self._options.values():
            with Horizontal(classes="setting").with_tooltip(option.help or option.label):
                yield Label(option.label)
                yield self._fields[option.name]
        yield Static(id="setting-error", markup=False)
        yield Static("Empty: the model's own value.", classes="hint")

    def show(self, settings: Mapping[str, Any], advised: Mapping[str, Any]) -> None:
        """settings: of the conversation. advised: of the model, shown where nothing is set."""
        self._settings = dict(settings)
        for option in self._options.values():
            field = self._fields[option.name]
            value = advised.get(option.name, option.default)
            field.placeholder = option.show(value) or "none"
            if not field.has_focus:
                with field.prevent(Input.Changed):
                    field.value = option.show(settings.get(option.name))

    @on(Input.Changed)
    def _change(self, event: Input.Changed) -> None:
        event.stop()
        option = self._options[(event.input.id or "").removeprefix("setting-")]
        error = self._take(option, event.value)
        event.input.set_class(bool(error), "-invalid")
        self.query_one("#setting-error", Static).update(error)
        if not error:
            self.post_message(self.Changed(dict(self._settings)))

    def _take(self, option: Option, text: str) -> str:
        """What is wrong with a value; "" when it is taken."""
        if not text.strip():
            self._settings.pop(option.name, None)
            return ""
        try:
            self._settings[option.name] = option.parse(text)
        except ValueError as error:
            return str(error)
        return ""
