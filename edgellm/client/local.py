"""The engine in this process, behind the asynchronous door. Knows nothing of front ends."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from edgellm.client.crossing import Crossing, Take
from edgellm.client.threads import Threads
from edgellm.detokenize import Detokenizer
from edgellm.embeddings import Pooled
from edgellm.errors import RequestError
from edgellm.holes import FimPrompt, Hole
from edgellm.loaded_model import LoadedModel
from edgellm.manager import Manager
from edgellm.sessions import delete, saved_sessions
from edgellm.types import (
    Embedding,
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


class LocalClient:
    """A Client of a Manager in this process. An asynchronous context manager.

    report: is told of what takes a while when a model is loaded.
    """

    def __init__(self, manager: Manager | None = None, report: "Report | None" = None) -> None:
        self._manager = manager or Manager(report)
        self._crossing: Crossing | None = None
        self._threads = Threads()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def submit(self, request: Request) -> AsyncGenerator[TokenEvent, None]:
        events: asyncio.Queue[TokenEvent | Exception] = asyncio.Queue()
        unfinished = request.params.n
        async with self._running(request, events.put_nowait):
            while unfinished:
                event = await events.get()
                if isinstance(event, Exception):
                    raise event
                unfinished -= event.finish_reason is not None
                yield event

    async def follow(self, request: Request, take: Callable[[TokenEvent], None]) -> None:
        """Has `take` called with what `submit` gives, and returns after the last.

        It is called as soon as an event is here, from the loop itself: no task is woken for each.
        An error of its own ends the request as well.
        """
        over = asyncio.get_running_loop().create_future()
        failures, unfinished = list[Exception](), request.params.n

        def arrive(event: TokenEvent | Exception) -> None:
            nonlocal unfinished
            if over.done():
                return
            try:
                if isinstance(event, Exception):
                    raise event
                unfinished -= event.finish_reason is not None
                take(event)
            except Exception as error:
                failures.append(error)
            if failures or not unfinished:
                over.set_result(None)

        try:
            async with self._running(request, arrive):
                await over
                if failures:
                    raise failures[0]
        finally:
            over.cancel()  # `take` is not called any more

    def after_events(self, action: Callable[[], None]) -> None:
        """Has `action` called in this loop once all events that are there have been taken."""
        self._crossing_here().after_events(action)

    @asynccontextmanager
    async def _running(self, request: Request, take: Take) -> AsyncIterator[None]:
        """Has `take` called with the events of a request; an error of the block aborts it."""
        crossing, request_id, has_left = self._crossing_here(), None, False

        def emit(event: TokenEvent | Exception) -> None:
            if has_left:  # perhaps before the request had an id to abort it by
                raise RuntimeError("nobody listens any more")
            crossing.put(take, event)

        try:
            # A long prompt takes a while to tokenise.
            request_id = await self._threads.do(partial(self._manager.submit, request, emit))
            yield
        except BaseException:  # the caller may have been cancelled, or have left its loop
            if request_id is not None:
                self._manager.abort(request_id)
            raise
        finally:
            has_left = True

    def _crossing_here(self) -> Crossing:
        loop = asyncio.get_running_loop()
        if self._crossing is None or self._crossing.loop is not loop:
            self._crossing = Crossing(loop, self._manager.after_step)
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
        return await self._threads.do(partial(self._manager.load, name_or_path, options, report))

    async def use(
        self, name: str | None = None, keep_alive: float | None = None
    ) -> ModelInfo | None:
        if name is None and keep_alive is None and (loaded := self._manager.loaded()):
            return loaded.info
        return await self._threads.do(partial(self._manager.use, name, keep_alive))

    async def unload(self, name: str) -> None:
        await self._threads.do(partial(self._manager.unload, name))

    async def details(self, model: str | None = None) -> ModelDetails:
        return await self._quick(model, lambda held: held.details)

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

        return await self._threads.do(body)

    async def embed(
        self,
        texts: Sequence[str | tuple[int, ...]],
        pooling: Pooling | None = None,
        truncate: bool = False,
        model: str | None = None,
    ) -> tuple[Embedding, ...]:
        work = partial(self._manager.embed, list(texts), pooling, truncate, model)
        return await self._embeddings(work)

    async def rerank(
        self, query: str, documents: Sequence[str], model: str | None = None
    ) -> tuple[Embedding, ...]:
        return await self._embeddings(partial(self._manager.rerank, query, list(documents), model))

    async def _embeddings(
        self, work: Callable[[threading.Event], list[Pooled]]
    ) -> tuple[Embedding, ...]:
        """What `work` gives, which ends when nobody waits for it any more."""
        given_up = threading.Event()
        try:
            found = await self._threads.do(partial(work, given_up))
        except asyncio.CancelledError:
            given_up.set()
            raise
        return tuple(
            Embedding(pooled.num_tokens, tuple(map(tuple, pooled.rows.tolist())))
            for pooled in found
        )

    async def save_session(
        self,
        name: str,
        ids: Sequence[int],
        messages: Messages = (),
        model: str | None = None,
    ) -> SessionInfo:
        return await self._threads.do(
            partial(self._manager.save_session, name, list(ids), messages, model)
        )

    async def restore_session(self, name: str, model: str | None = None) -> Session:
        return await self._threads.do(partial(self._manager.restore_session, name, model))

    async def sessions(self) -> tuple[SessionInfo, ...]:
        return await self._threads.do(saved_sessions)

    async def delete_session(self, name: str) -> None:
        await self._threads.do(partial(delete, name))

    async def stats(self) -> Mapping[str, Stats]:
        return self._manager.stats()

    async def close(self) -> None:
        await self._threads.do(self._manager.close)


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
