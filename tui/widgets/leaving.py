"""What is drawn may be taken off the screen meanwhile, as when another chat is opened."""

from collections.abc import Iterator
from contextlib import contextmanager

from textual.css.query import NoMatches
from textual.widget import MountError, Widget


@contextmanager
def while_shown(widget: Widget) -> Iterator[None]:
    """Ends quietly what cannot be drawn because the widget is gone, or going."""
    try:
        yield
    except (MountError, NoMatches):
        if widget.is_attached and not widget._pruning:
            raise
