"""Answers as they stream, taken apart by the model's dialect. Knows no API's way to write them."""

import asyncio
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from edgellm.dialects import CallPart, Parser, Part, PlainParser, TextPart
from edgellm.indent import IndentWatch
from edgellm.server.service import Service
from edgellm.types import ModelInfo, Request, Timings, TokenEvent, TokenLogprob, Usage


@dataclass(frozen=True)
class Limits:
    """Ends of an answer that are the server's business, not the engine's.

    predict_seconds: an answer that has a line end is over so long after its first token. indent:
    an answer ends before a line with fewer blanks at its start.
    """

    predict_seconds: float | None = None
    indent: int = 0


@dataclass(slots=True)
class Step:
    """One event of an answer and what its text makes certain."""

    event: TokenEvent
    parts: list[Part]

    @property
    def text(self) -> str:
        """What is neither reasoning nor a call."""
        return "".join(
            part.text
            for part in self.parts
            if isinstance(part, TextPart) and part.kind == "content"
        )

    @property
    def plain(self) -> str | None:
        """Its text, if it is that and nothing else, not even an end."""
        event, parts = self.event, self.parts
        if len(parts) != 1 or event.logprobs or event.finish_reason is not None:
            return None
        part = parts[0]
        return part.text if isinstance(part, TextPart) and part.kind == "content" else None


@dataclass
class Answer:
    """An answer put together. calls: by index. event: the last one, with usage and timings.

    reasoning_tokens: those before its text and its calls, if they are reasoning.
    """

    content: str = ""
    reasoning: str = ""
    calls: dict[int, CallPart] = field(default_factory=dict)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    event: TokenEvent | None = None
    reasoning_tokens: int = 0
    _unread_tokens: int = 0  # nothing is certain of them yet
    _begun: float | None = None  # with its first token

    @property
    def last(self) -> TokenEvent:
        assert self.event is not None, "the answer is not finished"
        return self.event

    @property
    def usage(self) -> Usage:
        return self.last.usage or Usage(0, 0)

    @property
    def timings(self) -> Timings:
        return self.last.timings or Timings(0.0, 0.0, 0.0)

    def timings_so_far(self) -> Mapping[str, Any]:
        """As llama.cpp reports them while the answer is written."""
        now = time.monotonic()
        return _predicted(len(self.token_ids), now - (self._begun or now))

    def take(self, step: Step) -> None:
        event = step.event
        if self._begun is None and event.token_ids:
            self._begun = time.monotonic()
        self.token_ids += event.token_ids
        if event.logprobs:
            self.logprobs += event.logprobs
        self._unread_tokens += len(event.token_ids)
        for part in step.parts:
            self._add(part)
            self._unread_tokens = 0
        if event.finish_reason is not None:
            self.event = event

    def _add(self, part: Part) -> None:
        if isinstance(part, CallPart):
            known = self.calls.get(part.index, CallPart(part.index, ""))
            self.calls[part.index] = CallPart(
                part.index,
                known.arguments + part.arguments,
                known.id or part.id,
                known.name or part.name,
                part.is_end,
            )
        elif part.kind == "content":
            self.content += part.text
        else:
            self.reasoning += part.text
            self.reasoning_tokens += self._unread_tokens


@dataclass(frozen=True)
class Prepared:
    """A request of a route, the model that it is for, how its answers are read and what ends them.

    slot: as in Service.follow.
    """

    info: ModelInfo
    request: Request
    parser: Callable[[], Parser] = PlainParser
    limits: Limits = Limits()
    slot: int | None = None

    async def follow(self, service: Service, take: Callable[[Step], None]) -> None:
        """Has `take` called with the steps of all answers, as they come."""
        parsers: dict[int, Parser] = {}

        def read(event: TokenEvent) -> None:
            own = parsers.get(event.index)
            if own is None:
                own = parsers[event.index] = self.parser()
            parts = own.push(event.text)
            if event.finish_reason is not None:
                parts += own.finish()
            take(Step(event, parts))

        if self.limits == Limits():
            await service.follow(self.request, read, self.slot)
            return
        request_id = new_id("limited-")
        limited = _Limited(service, request_id, self.limits, read)
        request = replace(self.request, request_id=request_id)
        await service.follow(request, limited.take, self.slot)

    async def collect(self, service: Service) -> list[Answer]:
        """All answers, finished, by index."""
        answers: dict[int, Answer] = {}

        def take(step: Step) -> None:
            answers.setdefault(step.event.index, Answer()).take(step)

        await self.follow(service, take)
        return [answers[index] for index in sorted(answers)]

    async def tell(
        self, service: Service, begin: Callable[[], None], take: Callable[[Part], None]
    ) -> Answer:
        """The one answer, of whose parts `take` is called with each, after `begin` was once."""
        answer, has_begun = Answer(), False

        def take_step(step: Step) -> None:
            nonlocal has_begun
            if not has_begun:
                has_begun = True
                begin()
            answer.take(step)
            for part in step.parts:
                take(part)

        await self.follow(service, take_step)
        return answer


def new_id(prefix: str) -> str:
    """A name that no other answer has."""
    return prefix + os.urandom(12).hex()


def total(answers: list[Answer]) -> Usage:
    """The tokens of a request: its prompt once, and all answers."""
    usages = [answer.usage for answer in answers]
    return Usage(
        usages[0].prompt_tokens,
        sum(usage.completion_tokens for usage in usages),
        max(usage.cached_tokens for usage in usages),
        sum(usage.drafted_tokens for usage in usages),
        sum(usage.accepted_tokens for usage in usages),
    )


def llama_timings(usage: Usage, timings: Timings) -> Mapping[str, Any]:
    """Counts and times as llama.cpp reports them."""
    computed = usage.prompt_tokens - usage.cached_tokens
    prompt_ms = 1000 * max(0.0, timings.first_token - timings.queued)
    drafts = {"draft_n": usage.drafted_tokens, "draft_n_accepted": usage.accepted_tokens}
    return {
        "cache_n": usage.cached_tokens,
        "prompt_n": computed,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": prompt_ms / max(1, computed),
        "prompt_per_second": 1000 * computed / prompt_ms if prompt_ms else 0.0,
        **_predicted(usage.completion_tokens, timings.decode),
        **(drafts if usage.drafted_tokens else {}),
    }


def _predicted(count: int, seconds: float) -> Mapping[str, Any]:
    """seconds: from the first token to the last, in which all but the first were computed."""
    milliseconds = 1000 * seconds
    return {
        "predicted_n": count,
        "predicted_ms": milliseconds,
        "predicted_per_token_ms": milliseconds / max(1, count - 1),
        "predicted_per_second": max(0, count - 1) / seconds if seconds else 0.0,
    }


class _Limited:
    """Hands the events of a request on until its limits end it, which counts as its length."""

    def __init__(
        self,
        service: Service,
        request_id: str,
        limits: Limits,
        take: Callable[[TokenEvent], None],
    ) -> None:
        self._service = service
        self._request_id = request_id
        self._seconds = math.inf if limits.predict_seconds is None else limits.predict_seconds
        self._watch = IndentWatch(limits.indent)
        self._take = take
        self._begun: float | None = None
        self._has_line = False
        self._ending: asyncio.Future[None] | None = None

    def take(self, event: TokenEvent) -> None:
        if event.progress is not None:
            self._take(event)
            return
        self._begun = self._begun or time.monotonic()
        is_over = self._ending is not None
        text = "" if is_over else self._watch.push(event.text)
        if event.finish_reason is not None:
            text += "" if is_over else self._watch.finish()
            reason = "length" if is_over else event.finish_reason
            self._take(replace(event, text=text, finish_reason=reason))
            return
        self._take(event if text == event.text else replace(event, text=text))
        self._has_line = self._has_line or "\n" in event.text
        is_late = time.monotonic() - self._begun > self._seconds
        if not is_over and (self._watch.is_over or (is_late and self._has_line)):
            self._ending = asyncio.ensure_future(self._service.client.abort(self._request_id))
