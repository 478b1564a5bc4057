"""A live view of what the engine is doing: the batch, the steps, what they may read."""

import time
from pathlib import Path

from textual.app import ComposeResult
from textual.widgets import Sparkline, Static

from edgellm.errors import EdgeLLMError
from edgellm.tui.screens.dialog import Dialog
from edgellm.tui.session import Session
from edgellm.tui.widgets.status_bar import size
from edgellm.types import ModelInfo, Stats

_EVERY = 0.5  # seconds
_KEPT = 120


class EngineScreen(Dialog[None]):
    """Shows numbers per second, from the differences of the engine's own counts."""

    def __init__(self, session: Session) -> None:
        super().__init__("Engine")
        self._session = session
        self._before: tuple[float, dict[str, Stats]] | None = None
        self._rates = [0.0, 0.0]  # a line needs two points

    def compose_body(self) -> ComposeResult:
        yield Sparkline(self._rates)
        yield Static(id="numbers", markup=False)

    async def on_mount(self) -> None:
        self.set_interval(_EVERY, self._update)
        await self._update()

    async def _update(self) -> None:
        numbers = self.query_one("#numbers", Static)
        if not self._session.models:
            numbers.update("No model is loaded.")
            return
        try:
            stats = dict(await (await self._session.client()).stats())
        except EdgeLLMError as error:
            numbers.update(str(error))
            return
        now = time.monotonic()
        lines = []
        for name, count in stats.items():
            seconds, before = now, count
            if self._before is not None and name in self._before[1]:
                seconds, before = now - self._before[0], self._before[1][name]
            lines += _lines(self._session.known(name), name, count, before, seconds)
        if self._before is not None:
            seconds = now - self._before[0]
            done = sum(
                count.tokens_generated - self._before[1][name].tokens_generated
                for name, count in stats.items()
                if name in self._before[1]
            )
            self._rates = [*self._rates, done / seconds][-_KEPT:]
            self.query_one(Sparkline).data = self._rates
        self._before = (now, stats)
        numbers.update("\n".join(lines))


def _lines(
    info: ModelInfo | None, name: str, now: Stats, before: Stats, seconds: float
) -> list[str]:
    steps = (now.steps - before.steps) / seconds
    written = (now.tokens_generated - before.tokens_generated) / seconds
    computed = (now.tokens_computed - before.tokens_computed) / seconds
    lines = [
        name,
        f"  batch            {now.running} running, {now.waiting} waiting",
        f"  steps            {steps:.1f} per second",
        f"  tokens computed  {computed:.1f} per second, {now.tokens_computed:,} in all",
        f"  tokens written   {written:.1f} per second, {now.tokens_generated:,} in all",
        f"  free cache       {', '.join(map(str, now.blocks_free))} blocks",
    ]
    if info is not None and Path(info.path).is_file():
        weights = Path(info.path).stat().st_size
        lines += [
            f"  weights          {size(weights)}",
            f"  read             about {size(weights * steps)} per second,",
            "                   reckoned from the steps;",
            "                   experts read less",
        ]
    return lines
