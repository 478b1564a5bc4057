"""One answer while it is written: asked of the engine, collected, saved. Knows no screen."""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from edgellm.client import Client
from edgellm.errors import EdgeLLMError
from edgellm.tui.chat import Chat, Message, as_openai
from edgellm.tui.reading import Begun, Reading, begun_by, chat_ids, manner_of
from edgellm.types import Request, SamplingParams, TokenEvent

SAVE_EVERY = 0.2  # seconds: the most text that is lost when the program is killed
_RATE_OVER = 3.0  # seconds that the live rate looks back

Save = Callable[[int, Message], None]


@dataclass(eq=False)
class Generation:
    """Writes `message`, which is in the chat already; text that it has is gone on from.

    begun: what the answer begins with; None: with its text. thinking: how much, one of LEVELS.
    """

    chat: Chat
    message: Message
    params: SamplingParams
    save: Save
    begun: Begun | None = None
    thinking: str | None = None
    error: Exception | None = None
    prompt_tokens: int = 0
    acceptance: float | None = None  # the share of tokens guessed ahead that were right
    _reading: Reading | None = None
    _thought_before: float = 0.0  # seconds, of what is gone on from
    _ids: list[int] = field(default_factory=list)
    _times: list[float] = field(default_factory=list)
    _save_due: asyncio.TimerHandle | None = None

    @property
    def text(self) -> str:
        """All of the answer so far."""
        return self._reading.text if self._reading else self.message.content

    @property
    def thoughts(self) -> str:
        """What was thought before it."""
        return self._reading.thoughts if self._reading else self.message.thoughts

    @property
    def is_thinking(self) -> bool:
        return self._reading is not None and self._reading.is_thinking

    @property
    def thought_seconds(self) -> float | None:
        """How long the thoughts have taken; None without any."""
        if self._reading is None:
            return self.message.thought_seconds
        seconds = self._reading.seconds
        return None if seconds is None else self._thought_before + seconds

    @property
    def num_tokens(self) -> int:
        """Tokens that the model must have in its context by now."""
        return self.prompt_tokens + len(self._times)

    @property
    def rate(self) -> float | None:
        """Tokens per second over the last seconds."""
        since = time.monotonic() - _RATE_OVER
        recent = [moment for moment in self._times[-1000:] if moment > since]
        if len(recent) < 2:
            return None
        return (len(recent) - 1) / (recent[-1] - recent[0] or 1e-9)

    async def run(self, client: Client, model: str) -> None:
        """Runs to the end of the answer. What goes wrong is in `error`; a cancelled one is saved
        as "abort"."""
        self._ids = list(self.message.token_ids)
        reason, last = "error", None
        try:
            request = await self._request(client, model)
            self.prompt_tokens = len(request.prompt)
            async with aclosing(client.submit(request)) as stream:
                async for event in stream:
                    self._take(event)
                    last = event
            self.acceptance = _acceptance(last)
            reason = (last and last.finish_reason) or "abort"
        except asyncio.CancelledError:
            reason = "abort"
            raise
        except EdgeLLMError as error:
            self.error = error
        finally:
            self._finish(reason, last)

    def label(self, model: str) -> None:
        """Says which model writes."""
        same = model == self.message.model
        ids = self.message.token_ids if same else ()  # another vocabulary's mean nothing
        self._keep(replace(self.message, model=model, token_ids=ids))

    def end(self, reason: str) -> None:
        """Ends an answer that has not been asked for yet."""
        if self.message.finish_reason is None:
            self._keep(replace(self.message, finish_reason=reason))

    async def _request(self, client: Client, model: str) -> Request:
        path = self.chat.path(self.message.parent) if self.message.parent is not None else []
        messages = as_openai(self.chat.conversation.system, path)
        ids = await chat_ids(client, messages, model, self.thinking)
        manner = await manner_of(client, model, self.params, ids)
        begun = self.begun or await begun_by(client, self.message, model, manner)
        self._thought_before = self.message.thought_seconds or 0.0
        self._ids, self._reading = list(begun.ids), Reading(manner)
        self._reading.push(begun.text)
        asked = manner.answering
        return Request((*ids, *begun.ids), asked.params, model=model, shown=asked.shown)

    def _take(self, event: TokenEvent) -> None:
        assert self._reading is not None, "there is no request yet"
        self._reading.push(event.text)
        self._ids += event.token_ids
        self._times += [time.monotonic()] * len(event.token_ids)
        if self._save_due is None:
            loop = asyncio.get_running_loop()
            self._save_due = loop.call_later(SAVE_EVERY, self._save_now)

    def _save_now(self) -> None:
        self._save_due = None
        self._keep(self._grown())

    def _grown(self) -> Message:
        """The message with what has come."""
        seconds = None if self.is_thinking else self.thought_seconds
        return replace(
            self.message,
            content=self.text,
            thoughts=self.thoughts,
            thought_seconds=seconds,
            token_ids=tuple(self._ids),
        )

    def _keep(self, message: Message) -> None:
        self.message = message
        if message.id in self.chat.messages:  # it may have been deleted meanwhile
            self.chat.put(message, show=False)
            self.save(self.chat.id, message)

    def _finish(self, reason: str, last: TokenEvent | None) -> None:
        if self._save_due is not None:
            self._save_due.cancel()
        if self._reading is not None:
            self._reading.finish()
        self._keep(
            replace(
                self._grown(),
                finish_reason=reason,
                prompt_tokens=self.prompt_tokens,
                first_token=last.timings.first_token if last and last.timings else None,
                tokens_per_second=_rate(last),
            )
        )


def _acceptance(last: TokenEvent | None) -> float | None:
    if last is None or last.usage is None or not last.usage.drafted_tokens:
        return None
    return last.usage.accepted_tokens / last.usage.drafted_tokens


def _rate(last: TokenEvent | None) -> float | None:
    """Tokens per second after the first; None where there are too few to tell."""
    if last is None or last.usage is None or last.timings is None:
        return None
    count = last.usage.completion_tokens - 1
    return count / last.timings.decode if count > 0 and last.timings.decode > 0 else None
