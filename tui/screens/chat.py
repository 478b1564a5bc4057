"""The screen of the chat. What is typed is painted at once, whatever else waits to be drawn."""

from textual import messages
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, OptionList, TextArea

_WITH_KEYS = (Input, OptionList, TextArea)  # their looks change with keys, not with answers


class ChatScreen(Screen[None]):
    """Textual draws with a timer, after up to two of its periods, and a frame begins with the
    layout of all that has grown: too long for a key."""

    async def _on_update(self, message: messages.Update) -> None:
        widget = message.widget
        if widget is self.focused and isinstance(widget, _WITH_KEYS) and self._is_shown:
            message.stop()
            message.prevent_default()
            self._paint(widget)

    @property
    def _is_shown(self) -> bool:
        """Whether what is painted now reaches the terminal."""
        return self.is_current and not self.app._batch_count

    def _paint(self, widget: Widget) -> None:
        waiting = self._dirty_widgets - {widget}
        self._compositor.update_widgets({widget})
        self._compositor_refresh()  # forgets those that wait
        self._dirty_widgets.update(waiting)
