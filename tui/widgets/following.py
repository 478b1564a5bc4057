"""A column that stays at its end while what is in it grows. Knows nothing of what that is."""

from textual.containers import VerticalScroll
from textual.geometry import Offset


class Following(VerticalScroll):
    """Follows its end until the user scrolls up, and again from the end on."""

    def on_mount(self) -> None:
        self.anchor()

    @property
    def scroll_offset(self) -> Offset:
        """Textual would put what is shorter than the column at its foot."""
        x, y = super().scroll_offset
        return Offset(x, max(0, y))
