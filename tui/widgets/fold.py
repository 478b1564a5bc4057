"""Widgets that cost nothing while they are out of sight: only their height is kept."""

from textual.geometry import Region
from textual.message import Message
from textual.widget import Widget

from edgellm.tui.widgets.column import Column


class Fold(Column):
    """What is in it stays as it is once the fold is closed. Knows nothing of what that is."""

    class Closed(Message):
        """Says to whoever scrolls that this one may be hidden."""

        def __init__(self, fold: "Fold") -> None:
            super().__init__()
            self.fold = fold

    def __init__(self, *children: Widget, closed: bool = False) -> None:
        super().__init__(*children)
        self.is_hidden = False
        self._is_closed = closed

    def on_mount(self) -> None:
        if self._is_closed:
            self.close()

    def close(self) -> None:
        self.post_message(self.Closed(self))

    def look(self, sight: Region) -> None:
        """Hides what is in it, or shows it. sight: what of the screen can be seen, or soon."""
        region = self.region
        if region.area and region.overlaps(sight) == self.is_hidden:
            self._hide(not self.is_hidden)

    def unfold(self) -> None:
        """Shows what is in it, to be measured again."""
        if self.is_hidden:
            self._hide(False)

    def _hide(self, hidden: bool) -> None:
        self.is_hidden = hidden
        self.styles.height = self.region.height if hidden else "auto"
        for child in self.children:
            child.display = not hidden
