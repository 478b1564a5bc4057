"""A container whose children are as high as they are, however high it is itself.

Textual remembers a layout by the container's size. What grows line by line would lay out all that
is in it anew for every line; without the height, what has not changed is remembered.
"""

from textual.containers import Vertical
from textual.geometry import Size
from textual.layout import DockArrangeResult


class Column(Vertical):
    """One below the other, with the height of all together. No child's height may depend on it."""

    DEFAULT_CSS = "Column { width: 1fr; height: auto; }"

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        return super().arrange(width_of(size), optimal)


def width_of(size: Size) -> Size:
    """The size that a layout in a column is remembered by."""
    return Size(size.width, 0)
