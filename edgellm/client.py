"""The asynchronous door into the engine, for every front end. Knows nothing of what is inside.

A Client behaves the same whether the engine runs in this process (LocalClient) or in another.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from edgellm.detokenize import Detokenizer
from edgellm.manager import Manager, find_model
from edgellm.types import (
    LoadOptions,
    Message,
    Messages,
    ModelInfo,
    Request,
    Stats,
    TokenEvent,
)

if TYPE_CHECKING:
    from edgellm.pull import Report

__all__ = ["Client", "LocalClient", "find_model"]

T = TypeVar("T")


class Client(Protocol):
    """What front ends may ask. Every error is an EdgeLLMError."""

    def submit(self, request: Request) -> AsyncGenerator[TokenEvent, None]:
        """The events of all params.n answers as they come; closing it aborts the rest.

        A loop that may be left early wants contextlib.aclosing around it.
        """

    async def abort(self, request_id: str) -> None:
        """Ends a request: its answers finish with reason "abort". An unknown id is no error."""

    async def models(self) -> tuple[ModelInfo, ...]:
        """The models that are loaded."""

    async def load(self, name_or_path: str, options: LoadOptions | None = None) -> ModelInfo:
        """Loads a model, pulling it first if it must be."""

    async def unload(self, name: str) -> None:
        """Aborts a model's requests and closes it."""

    async def tokenize(
        self,
        text: str,
        add_special: bool = True,
        parse_special: bool = True,
        model: str | None = None,
    ) -> list[int]:
        """Token ids of a text."""

    async def chat_ids(
        self, messages: Messages, tools: list[Message] | None = None, model: str | None = None
    ) -> tuple[int, ...]:
        """Messages under the model's template, as a Request's prompt."""

    async def pieces(self, ids: Sequence[int], model: str | None = None) -> tuple[str, ...]:
        """The text that each id makes certain, control tokens written out; joined, all of it."""

    async def stats(self) -> Mapping[str, Stats]:
        """What each model's engine has done and is doing."""

    async def close(self) -> None:
        """Ends the connection, and the engine if it is this process's."""


class LocalClient:
    """A Client of a Manager in this process. An asynchronous context manager.

    report: is told of what takes a while when a model is loaded.
    """

    def __init__(self, manager: Manager | None = None, report: "Report | None" = None) -> None:
        self._manager = manager or Manager(report)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def submit(self, request: Request) -> AsyncGenerator[TokenEvent, None]:
        loop = asyncio.get_running_loop()
        outbox: asyncio.Queue[TokenEvent | Exception] = asyncio.Queue()

        has_left = False

        def emit(event: TokenEvent | Exception) -> None:
            if has_left:  # perhaps before the request had an id to abort it by
                raise RuntimeError("nobody listens any more")
            loop.call_soon_threadsafe(outbox.put_nowait, event)

        unfinished, request_id = request.params.n, None
        try:
            # A long prompt takes a while to tokenise.
            request_id = await _in_thread(partial(self._manager.submit, request, emit))
            while unfinished:
                event = await outbox.get()
                if isinstance(event, Exception):
                    raise event
                unfinished -= event.finish_reason is not None
                yield event
        finally:
            has_left = True
            if unfinished and request_id is not None:
                self._manager.abort(request_id)

    async def abort(self, request_id: str) -> None:
        self._manager.abort(request_id)

    async def models(self) -> tuple[ModelInfo, ...]:
        return self._manager.models()

    async def load(self, name_or_path: str, options: LoadOptions | None = None) -> ModelInfo:
        return await _in_thread(partial(self._manager.load, name_or_path, options))

    async def unload(self, name: str) -> None:
        await _in_thread(partial(self._manager.unload, name))

    async def tokenize(
        self,
        text: str,
        add_special: bool = True,
        parse_special: bool = True,
        model: str | None = None,
    ) -> list[int]:
        tokenizer = self._manager.model(model).tokenizer
        return await _in_thread(partial(tokenizer.encode, text, add_special, parse_special))

    async def chat_ids(
        self, messages: Messages, tools: list[Message] | None = None, model: str | None = None
    ) -> tuple[int, ...]:
        loaded = self._manager.model(model)
        return tuple(await _in_thread(partial(loaded.chat_ids, messages, tools)))

    async def pieces(self, ids: Sequence[int], model: str | None = None) -> tuple[str, ...]:
        tokenizer = self._manager.model(model).tokenizer
        detokenizer = Detokenizer(tokenizer, skip_special=False, continues=True)
        pieces = [detokenizer.push(token) for token in ids]
        return (*pieces[:-1], pieces[-1] + detokenizer.flush()) if pieces else ()

    async def stats(self) -> Mapping[str, Stats]:
        return self._manager.stats()

    async def close(self) -> None:
        await _in_thread(self._manager.close)


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
