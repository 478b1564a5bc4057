"""The engine of a running server, behind the asynchronous door. Knows nothing of engines."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Any, Self

from edgellm.client.http import Response, exchange, parse_address
from edgellm.errors import ConnectionFailed, EdgeLLMError
from edgellm.holes import FimPrompt, Hole
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
from edgellm.wire import decode, decode_error, decode_event, encode

if TYPE_CHECKING:
    from edgellm.pull import Report

PREFIX = "/edgellm/v1"


class SocketClient:
    """A Client of the server at `address`: the path of a Unix socket, or http://host:port.

    Each call has a connection of its own; losing it aborts what was asked there. An asynchronous
    context manager, though nothing is held between calls.
    """

    def __init__(self, address: str, api_key: str | None = None) -> None:
        self.address = parse_address(address)
        self._api_key = api_key

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def submit(self, request: Request) -> AsyncGenerator[TokenEvent, None]:
        unfinished = request.params.n
        async with aclosing(self._lines("submit", encode(request))) as lines:
            async for line in lines:
                event = decode_event(line)
                unfinished -= event.finish_reason is not None
                yield event
        if unfinished:
            raise ConnectionFailed("the server closed the connection before the answer ended")

    async def abort(self, request_id: str) -> None:
        await self._ask("abort", {"request_id": request_id})

    async def models(self) -> tuple[ModelInfo, ...]:
        return decode(tuple[ModelInfo, ...], await self._ask("models"))

    async def load(
        self,
        name_or_path: str,
        options: LoadOptions | None = None,
        report: "Report | None" = None,
    ) -> ModelInfo:
        fields = {"name": name_or_path, "options": encode(options or LoadOptions())}
        async with aclosing(self._lines("load", fields)) as lines:
            async for line in lines:
                if "model" in line:
                    return decode(ModelInfo, line["model"])
                if report is not None and "note" in line:
                    report.note(line["note"])
                elif report is not None and "stage" in line:
                    report.advance(line["stage"], line["done"], line["total"])
                elif report is not None and "counted" in line:
                    report.count(line["counted"], line["done"], line["total"])
        raise ConnectionFailed("the server closed the connection before the model was loaded")

    async def use(
        self, name: str | None = None, keep_alive: float | None = None
    ) -> ModelInfo | None:
        found = await self._ask("use", {"name": name, "keep_alive": keep_alive})
        return decode(ModelInfo, found["model"]) if found.get("model") else None

    async def unload(self, name: str) -> None:
        await self._ask("unload", {"name": name})

    async def details(self, model: str | None = None) -> ModelDetails:
        return decode(ModelDetails, await self._ask("details", {"model": model}))

    async def tokenize(
        self,
        text: str,
        add_special: bool = True,
        parse_special: bool = True,
        model: str | None = None,
    ) -> list[int]:
        fields = {
            "text": text,
            "add_special": add_special,
            "parse_special": parse_special,
            "model": model,
        }
        return list(decode(tuple[int, ...], await self._ask("tokenize", fields)))

    async def detokenize(self, ids: Sequence[int], model: str | None = None) -> str:
        return decode(str, await self._ask("detokenize", {"ids": list(ids), "model": model}))

    async def token_bytes(self, ids: Sequence[int], model: str | None = None) -> list[bytes]:
        pieces = await self._ask("token_bytes", {"ids": list(ids), "model": model})
        return [piece.encode("latin-1") for piece in decode(tuple[str, ...], pieces)]

    async def pieces(self, ids: Sequence[int], model: str | None = None) -> tuple[str, ...]:
        found = await self._ask("pieces", {"ids": list(ids), "model": model})
        return decode(tuple[str, ...], found)

    async def chat_prompt(
        self,
        messages: Messages,
        tools: list[Message] | None = None,
        model: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        return decode(str, await self._chat("chat_prompt", messages, tools, model, variables))

    async def chat_ids(
        self,
        messages: Messages,
        tools: list[Message] | None = None,
        model: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> tuple[int, ...]:
        ids = await self._chat("chat_ids", messages, tools, model, variables)
        return decode(tuple[int, ...], ids)

    async def fim_prompt(
        self,
        hole: Hole,
        max_tokens: int | None = None,
        suffix_limit: int | None = None,
        model: str | None = None,
    ) -> FimPrompt:
        fields = {
            "hole": encode(hole),
            "max_tokens": max_tokens,
            "suffix_limit": suffix_limit,
            "model": model,
        }
        return decode(FimPrompt, await self._ask("fim_prompt", fields))

    async def embed(
        self,
        texts: Sequence[str | tuple[int, ...]],
        pooling: Pooling | None = None,
        truncate: bool = False,
        model: str | None = None,
    ) -> tuple[Embedding, ...]:
        fields = {"texts": encode(texts), "pooling": pooling, "truncate": truncate, "model": model}
        return decode(tuple[Embedding, ...], await self._ask("embed", fields))

    async def rerank(
        self, query: str, documents: Sequence[str], model: str | None = None
    ) -> tuple[Embedding, ...]:
        fields = {"query": query, "documents": list(documents), "model": model}
        return decode(tuple[Embedding, ...], await self._ask("rerank", fields))

    async def save_session(
        self,
        name: str,
        ids: Sequence[int],
        messages: Messages = (),
        model: str | None = None,
    ) -> SessionInfo:
        fields = {"name": name, "ids": list(ids), "messages": list(messages), "model": model}
        return decode(SessionInfo, await self._ask("save_session", fields))

    async def restore_session(self, name: str, model: str | None = None) -> Session:
        found = await self._ask("restore_session", {"name": name, "model": model})
        return decode(Session, found)

    async def sessions(self) -> tuple[SessionInfo, ...]:
        return decode(tuple[SessionInfo, ...], await self._ask("sessions"))

    async def delete_session(self, name: str) -> None:
        await self._ask("delete_session", {"name": name})

    async def stats(self) -> Mapping[str, Stats]:
        return decode(Mapping[str, Stats], await self._ask("stats"))  # type: ignore[type-abstract]

    async def close(self) -> None:
        """Nothing is held between calls."""

    async def _chat(
        self,
        route: str,
        messages: Messages,
        tools: list[Message] | None,
        model: str | None,
        variables: Mapping[str, Any] | None,
    ) -> Any:
        fields = {"messages": encode(messages), "tools": encode(tools), "model": model}
        return await self._ask(route, {**fields, "variables": encode(variables)})

    async def _ask(self, route: str, fields: Mapping[str, Any] | None = None) -> Any:
        async with self._exchange(route, fields or {}) as response:
            value = _json(await response.body())
            if response.status != 200:
                raise _error(value)
            return value

    async def _lines(self, route: str, fields: Any) -> AsyncGenerator[Any, None]:
        """The values of an answer that comes line by line; its last line may be an error."""
        async with self._exchange(route, fields) as response:
            if response.status != 200:
                raise _error(_json(await response.body()))
            async for lines in response.lines():
                for value in map(_json, lines):
                    if isinstance(value, dict) and "error" in value:
                        raise _error(value)
                    yield value

    def _exchange(self, route: str, fields: Any) -> AbstractAsyncContextManager[Response]:
        body = json.dumps(fields).encode()
        return exchange(self.address, "POST", f"{PREFIX}/{route}", body, self._api_key)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise EdgeLLMError(f"what answers is no edgellm server: {body[:100]!r}") from None


def _error(value: Any) -> EdgeLLMError:
    return decode_error(value.get("error") if isinstance(value, dict) else value)
