"""One answer while it is written: asked of the engine, collected, saved. Knows no screen."""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from edgellm.client import Client
from edgellm.errors import EdgeLLMError
from edgellm.tui.chat import Chat, Message, as_openai
from edgellm.types import Request, SamplingParams, TokenEvent

SAVE_EVERY = 0.2  # seconds: the most text that is lost when the program is killed
_RATE_OVER = 3.0  # seconds that the live rate looks back

Save = Callable[[int, Message], None]


@dataclass(eq=False)
class Generation:
    """Writes `message`, which is in the chat already; text that it has is gone on from."""

    chat: Chat
    message: Message
    params: SamplingParams
    save: Save
    error: Exception | None = None
    prompt_tokens: int = 0
    acceptance: float | None = None  # the share of tokens guessed ahead that were right
    _text: list[str] = field(default_factory=list)
    _ids: list[int] = field(default_factory=list)
    _times: list[float] = field(default_factory=list)
    _save_due: asyncio.TimerHandle | None = None

    @property
    def text(self) -> str:
        """All of the answer so far."""
        if len(self._text) > 1:
            self._text[:] = ["".join(self._text)]
        return self._text[0] if self._text else ""

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
        self._text, self._ids = [self.message.content], list(self.message.token_ids)
        reason, last = "error", None
        try:
            prompt = await self._prompt(client, model)
            self.prompt_tokens = len(prompt)
            request = Request(prompt, self.params, model=model)
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

    async def _prompt(self, client: Client, model: str) -> tuple[int, ...]:
        path = self.chat.path(self.message.parent) if self.message.parent is not None else []
        ids = await client.chat_ids(as_openai(self.chat.conversation.system, path), model=model)
        begun = await begun_ids(client, self.message, model)
        self._ids = list(begun)
        return (*ids, *begun)

    def _take(self, event: TokenEvent) -> None:
        self._text.append(event.text)
        self._ids += event.token_ids
        self._times += [time.monotonic()] * len(event.token_ids)
        if self._save_due is None:
            loop = asyncio.get_running_loop()
            self._save_due = loop.call_later(SAVE_EVERY, self._save_now)

    def _save_now(self) -> None:
        self._save_due = None
        self._keep(replace(self.message, content=self.text, token_ids=tuple(self._ids)))

    def _keep(self, message: Message) -> None:
        self.message = message
        if message.id in self.chat.messages:  # it may have been deleted meanwhile
            self.chat.put(message, show=False)
            self.save(self.chat.id, message)

    def _finish(self, reason: str, last: TokenEvent | None) -> None:
        if self._save_due is not None:
            self._save_due.cancel()
        self._keep(
            replace(
                self.message,
                content=self.text,
                token_ids=tuple(self._ids),
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


async def begun_ids(client: Client, message: Message, model: str) -> tuple[int, ...]:
    """The ids of an answer's text, without the token that ended it.

    Those that the model gave where they still say the text; else those of the text.
    """
    if not message.content:
        return ()
    if message.model == model and message.token_ids:
        pieces = await client.pieces(message.token_ids, model)
        for count in (len(pieces), len(pieces) - 1):
            if "".join(pieces[:count]) == message.content:
                return message.token_ids[:count]
    ids = await client.tokenize(
        message.content, add_special=False, parse_special=False, model=model
    )
    return tuple(ids)
