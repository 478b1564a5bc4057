"""The prompt as the model sees it, token by token."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from edgellm.tui.screens.dialog import Dialog

_MOST = 4000  # tokens shown, the last ones

_SHADES = ("on $panel", "")  # of every other token


class RawPromptScreen(Dialog[None]):
    """ids, and the text of each."""

    def __init__(self, ids: Sequence[int], pieces: Sequence[str]) -> None:
        cut = f", the last {_MOST:,} shown" if len(ids) > _MOST else ""
        super().__init__(f"The prompt: {len(ids):,} tokens{cut}")
        self._pieces = pieces[-_MOST:]

    def compose_body(self) -> ComposeResult:
        with VerticalScroll(classes="body"):
            shades = zip(self._pieces, _SHADES * len(self._pieces), strict=False)
            yield Static(Content.assemble(*shades))
