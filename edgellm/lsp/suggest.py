"""Suggestions from a model: one at a time for a document, the newest. Knows no protocol."""

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass

from edgellm.client import Client
from edgellm.holes import Hole
from edgellm.indent import IndentWatch
from edgellm.types import Request, SamplingParams

_MAX_TOKENS = 64
_SUFFIX_TOKENS = 512  # are read once for several lines: see `cursor`
_WRITE_SECONDS = 1.5  # an answer is shown as far as it has come then


@dataclass(frozen=True)
class Wanted:
    """What to suggest. typed: a word before the cursor that is not in the hole, nor in the answer.

    indent: of the lines that belong to it. one_line: no more than this one.
    """

    hole: Hole
    typed: str = ""
    indent: int = 0
    one_line: bool = False


class Suggester:
    """Asks one model of a client. delay: seconds without another request before one is taken."""

    def __init__(self, client: Client, model: str, delay: float) -> None:
        self._client = client
        self._model = model
        self._delay = delay
        self._running: dict[str, asyncio.Task[str]] = {}

    async def warm(self) -> None:
        """Has the model make what the first answer would wait for."""
        await self._answer(Wanted(Hole("", ""), "a"), 0.0, max_tokens=1)

    async def suggest(self, document: str, wanted: Wanted, at_once: bool = False) -> str:
        """The text to insert; empty when there is none, or a newer request took its place.

        Cancelling it frees the model at once. at_once: without the delay.
        """
        if older := self._running.get(document):
            older.cancel()
        task = asyncio.ensure_future(self._answer(wanted, 0.0 if at_once else self._delay))
        self._running[document] = task
        try:
            return await task
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if own is not None and own.cancelling():
                raise
            return ""
        finally:
            if self._running.get(document) is task:
                del self._running[document]

    async def _answer(self, wanted: Wanted, delay: float, max_tokens: int = _MAX_TOKENS) -> str:
        await asyncio.sleep(delay)
        prompt = await self._client.fim_prompt(wanted.hole, max_tokens, _SUFFIX_TOKENS, self._model)
        stop = ("\n",) if wanted.one_line else ()
        begins = f"{wanted.typed}(?s:.*)" if wanted.typed else None
        params = SamplingParams(temperature=0, max_tokens=max_tokens, stop=stop, regex=begins)
        watch, text, begun = IndentWatch(wanted.indent), "", time.monotonic()
        left = len(wanted.typed)  # of what the answer repeats
        request = Request(prompt.token_ids, params, model=self._model)
        async with aclosing(self._client.submit(request)) as events:
            async for event in events:
                text += watch.push(event.text[left:])
                left = max(0, left - len(event.text))
                if watch.is_over or (text and time.monotonic() - begun > _WRITE_SECONDS):
                    break
        return (text + watch.finish()).rstrip()
