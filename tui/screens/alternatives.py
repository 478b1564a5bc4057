"""What each token of an answer might have been instead, and how likely.

Asked of the model for the token under the cursor; its cache has the text before it.
"""

import asyncio
import math
from collections.abc import Sequence
from contextlib import aclosing

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.geometry import Region
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from edgellm.client import Client
from edgellm.errors import EdgeLLMError
from edgellm.tui.screens.dialog import Dialog
from edgellm.types import ModelInfo, Request, SamplingParams

_COUNT = 10
_BAR = 10  # cells
_HINT = "←→ token · ↑↓ choice · Enter takes · Esc closes"


class AlternativesScreen(Dialog[tuple[int, int]]):
    """The place in the answer and the token that is to stand there.

    prompt: the ids before the answer. ids, pieces: the answer's tokens and the text of each.
    """

    BINDINGS = [
        Binding("left", "move(-1)", "Token before", show=False, priority=True),
        Binding("right", "move(1)", "Token after", show=False, priority=True),
        Binding("home", "move(-1000000)", "First token", show=False, priority=True),
        Binding("end", "move(1000000)", "Last token", show=False, priority=True),
    ]

    def __init__(
        self,
        client: Client,
        info: ModelInfo,
        prompt: Sequence[int],
        ids: Sequence[int],
        pieces: Sequence[str],
    ) -> None:
        super().__init__("What it might have said", _HINT)
        self._client = client
        self._info = info
        self._prompt = tuple(prompt)
        self._ids = tuple(ids)
        self._pieces = pieces
        self._place = 0
        self._listed = 0  # the place that the list is for, which follows a little later

    def compose_body(self) -> ComposeResult:
        with Horizontal(classes="body"):
            with VerticalScroll(can_focus=False):
                yield Static(id="tokens")
            yield OptionList(compact=True)

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()
        self.action_move(0)

    def action_move(self, step: int) -> None:
        self._place = max(0, min(len(self._ids) - 1, self._place + step))
        self.query_one("#tokens", Static).update(
            Content.assemble(
                *(
                    (piece, "reverse" if place == self._place else "")
                    for place, piece in enumerate(self._pieces)
                )
            )
        )
        self.call_after_refresh(self._follow)
        self._ask()

    def _follow(self) -> None:
        """Scrolls so that the token is in sight."""
        tokens = self.query_one("#tokens", Static)
        before = Content("".join(self._pieces[: self._place + 1]))
        line = len(before.wrap(tokens.content_size.width)) - 1
        self.query_one(VerticalScroll).scroll_to_region(Region(0, line, 1, 1), animate=False)

    @work(exclusive=True)
    async def _ask(self) -> None:
        """Lists what the model gives for this place."""
        listed = self.query_one(OptionList)
        await asyncio.sleep(0.05)  # only the last of several quick steps is asked for
        place = self._place
        request = Request(
            (*self._prompt, *self._ids[:place]),
            SamplingParams(temperature=0.0, max_tokens=1, logprobs=_COUNT),
            model=self._info.name,
        )
        try:
            async with aclosing(self._client.submit(request)) as stream:
                entries = [e async for event in stream for e in event.logprobs or ()]
            top = entries[0].top if entries else ()
            texts = [
                "".join(await self._client.pieces((token,), self._info.name)) for token, _ in top
            ]
        except EdgeLLMError as error:
            self.show_hint(str(error))
            return
        self._listed = place
        listed.clear_options()
        for (token, logprob), text in zip(top, texts, strict=True):
            said = place < len(self._ids) and token == self._ids[place]
            listed.add_option(Option(_line(text, math.exp(logprob), said), id=str(token)))
        listed.highlighted = 0 if top else None

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_id is not None:
            self.dismiss((self._listed, int(event.option_id)))


def _line(text: str, probability: float, said: bool) -> Content:
    bar = "█" * round(probability * _BAR)
    return Content.assemble(
        (f"{probability:6.1%} ", "$muted"),
        (f"{bar:<{_BAR}} ", "$accent"),
        (repr(text)[1:-1], "bold" if said else ""),
    )
