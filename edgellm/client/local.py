"""The engine in this process, behind the asynchronous door. Knows nothing of front ends."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from edgellm.detokenize import Detokenizer
from edgellm.embeddings import Pooled
from edgellm.errors import RequestError
from edgellm.loaded_model import LoadedModel
from edgellm.manager import Manager
from edgellm.sessions import delete, saved_sessions
from edgellm.types import (
    Embedding,
    FimPrompt,
    Hole,
    LoadOptions,
    Message,
    Messages,
    ModelDetails,
    ModelInfo,
    Pooling,
    Request,
    Session,
    SessionInfo,
    Stats,
    TokenEvent,
)

if TYPE_CHECKING:
    from edgellm.pull import Report

T = TypeVar("T")


class _Outbox:
    """Events of one request, in order, for the one task that takes them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.events: deque[TokenEvent | Exception] = deque()
        self._arrival: asyncio.Future[None] | None = None

    def put(self, event: TokenEvent | Exception) -> None:
        self.events.append(event)
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def arrival(self) -> asyncio.Future[None]:
        """Is done when there is another event."""
        self._arrival = self._loop.create_future()
        return self._arrival


class _Crossing:
    """Carries events from the engine's thread to a loop, which is woken once for all of a step."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, after_step: Callable[[Callable[[], None]], None]
    ) -> None:
        self.loop = loop
        self._after_step = after_step
        self._events: deque[tuple[_Outbox, TokenEvent | Exception]] = deque()
        self._is_awaited = False  # by the loop, or its waking is to come
        self._is_closed = False

    def put(self, outbox: _Outbox, event: TokenEvent | Exception) -> None:
        """Called in the engine's thread. RuntimeError when the loop was found closed."""
        if self._is_closed:
            raise RuntimeError("the loop that this was for is closed")
        self._events.append((outbox, event))
        if not self._is_awaited:
            self._is_awaited = True
            self._after_step(self._wake)

    def _wake(self) -> None:
        try:
            self.loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            self._is_closed = True

    def _deliver(self) -> None:
        self._is_awaited = False  # before the events are taken: one that comes now wakes again
        while self._events:
            outbox, event = self._events.popleft()
            outbox.put(event)


class LocalClient:
    """A Client of a Manager in this process. An asynchronous context manager.

    report: is told of what takes a while when a model is loaded.
    """

    def __init__(self, manager: Manager | None = None, report: "Report | None" = None) -> None:
        self._manager = manager or Manager(report)
        self._crossing: _Crossing | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def submit(self, request: Request) -> AsyncGenerator[TokenEvent, None]:
        crossing = self._crossing_here()
        outbox = _Outbox(crossing.loop)
        has_left = False

        def emit(event: TokenEvent | Exception) -> None:
            if has_left:  # perhaps before the request had an id to abort it by
                raise RuntimeError("nobody listens any more")
            crossing.put(outbox, event)

        unfinished, request_id = request.params.n, None
        try:
            # A long prompt takes a while to tokenise.
            request_id = await _in_thread(partial(self._manager.submit, request, emit))
            while unfinished:
                if not outbox.events:
                    await outbox.arrival()
                event = outbox.events.popleft()
                if isinstance(event, Exception):
                    raise event
                unfinished -= event.finish_reason is not None
                yield event
        finally:
            has_left = True
            if unfinished and request_id is not None:
                self._manager.abort(request_id)

    def _crossing_here(self) -> _Crossing:
        loop = asyncio.get_running_loop()
        if self._crossing is None or self._crossing.loop is not loop:
            self._crossing = _Crossing(loop, self._manager.after_step)
        return self._crossing

    async def abort(self, request_id: str) -> None:
        self._manager.abort(request_id)

    async def models(self) -> tuple[ModelInfo, ...]:
        return self._manager.models()

    async def load(
        self,
        name_or_path: str,
        options: LoadOptions | None = None,
        report: "Report | None" = None,
    ) -> ModelInfo:
        return await _in_thread(partial(self._manager.load, name_or_path, options, report))

    async def use(
        self, name: str | None = None, keep_alive: float | None = None
    ) -> ModelInfo | None:
        return await _in_thread(partial(self._manager.use, name, keep_alive))

    async def unload(self, name: str) -> None:
        await _in_thread(partial(self._manager.unload, name))

    async def details(self, model: str | None = None) -> ModelDetails:
        return await self._quick(model, LoadedModel.details)

    async def tokenize(
        self,
        text: str,
        add_special: bool = True,
        parse_special: bool = True,
        model: str | None = None,
    ) -> list[int]:
        return await self._long(
            model, lambda held: held.tokenizer.encode(text, add_special, parse_special)
        )

    async def detokenize(self, ids: Sequence[int], model: str | None = None) -> str:
        return await self._quick(model, lambda held: held.tokenizer.decode(ids))

    async def token_bytes(self, ids: Sequence[int], model: str | None = None) -> list[bytes]:
        return await self._quick(
            model, lambda held: [held.tokenizer.token_bytes(token_id) for token_id in ids]
        )

    async def chat_prompt(
        self,
        messages: Messages,
        tools: list[Message] | None = None,
        model: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        given = _variables(variables)
        return await self._long(
            model, lambda held: held.chat_template.render(messages, tools=tools, **given)
        )

    async def chat_ids(
        self,
        messages: Messages,
        tools: list[Message] | None = None,
        model: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> tuple[int, ...]:
        given = _variables(variables)
        return tuple(await self._long(model, lambda held: held.chat_ids(messages, tools, **given)))

    async def fim_prompt(
        self,
        hole: Hole,
        max_tokens: int | None = None,
        suffix_limit: int | None = None,
        model: str | None = None,
    ) -> FimPrompt:
        return await self._long(model, lambda held: held.fim_prompt(hole, max_tokens, suffix_limit))

    async def pieces(self, ids: Sequence[int], model: str | None = None) -> tuple[str, ...]:
        return await self._quick(model, partial(_pieces, ids))

    async def _quick(self, model: str | None, work: Callable[[LoadedModel], T]) -> T:
        """Does at once what takes no time, unless the model must be loaded first."""
        loaded = self._manager.loaded(model)
        return await self._long(model, work) if loaded is None else work(loaded)

    async def _long(self, model: str | None, work: Callable[[LoadedModel], T]) -> T:
        def body() -> T:
            with self._manager.using(model) as held:
                return work(held)

        return await _in_thread(body)

    async def embed(
        self,
        texts: Sequence[str | tuple[int, ...]],
        pooling: Pooling | None = None,
        truncate: bool = False,
        model: str | None = None,
    ) -> tuple[Embedding, ...]:
        work = partial(self._manager.embed, list(texts), pooling, truncate, model)
        return await _embeddings(work)

    async def rerank(
        self, query: str, documents: Sequence[str], model: str | None = None
    ) -> tuple[Embedding, ...]:
        return await _embeddings(partial(self._manager.rerank, query, list(documents), model))

    async def save_session(
        self,
        name: str,
        ids: Sequence[int],
        messages: Messages = (),
        model: str | None = None,
    ) -> SessionInfo:
        return await _in_thread(
            partial(self._manager.save_session, name, list(ids), messages, model)
        )

    async def restore_session(self, name: str, model: str | None = None) -> Session:
        return await _in_thread(partial(self._manager.restore_session, name, model))

    async def sessions(self) -> tuple[SessionInfo, ...]:
        return await _in_thread(saved_sessions)

    async def delete_session(self, name: str) -> None:
        await _in_thread(partial(delete, name))

    async def stats(self) -> Mapping[str, Stats]:
        return self._manager.stats()

    async def close(self) -> None:
        await _in_thread(self._manager.close)


def _variables(variables: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What a template may read beside the conversation. RequestError for what is part of that."""
    given = variables or {}
    for name in ("messages", "tools"):
        if name in given:
            raise RequestError(
                f"chat_template_kwargs: {name} are the request's own", "chat_template_kwargs"
            )
    return given


def _pieces(ids: Sequence[int], model: LoadedModel) -> tuple[str, ...]:
    detokenizer = Detokenizer(model.tokenizer, skip_special=False, continues=True)
    pieces = [detokenizer.push(token) for token in ids]
    return (*pieces[:-1], pieces[-1] + detokenizer.flush()) if pieces else ()


async def _embeddings(work: Callable[[threading.Event], list[Pooled]]) -> tuple[Embedding, ...]:
    """What `work` gives, which ends when nobody waits for it any more."""
    given_up = threading.Event()
    try:
        found = await _in_thread(partial(work, given_up))
    except asyncio.CancelledError:
        given_up.set()
        raise
    return tuple(
        Embedding(pooled.num_tokens, tuple(map(tuple, pooled.rows.tolist()))) for pooled in found
    )


async def _in_thread(work: Callable[[], T]) -> T:
    """Awaits `work` done in a thread that nothing waits for once the caller has gone.

    An executor's threads are waited for when the program ends, so that Ctrl-C during a download
    would wait for all of it.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(settler: Callable[[], None]) -> None:
        if not result.cancelled():
            settler()

    def body() -> None:
        try:
            settler = partial(result.set_result, work())
        except BaseException as error:
            settler = partial(result.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, settler)

    threading.Thread(target=body, daemon=True).start()
    return await result
