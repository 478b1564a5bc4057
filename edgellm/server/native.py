"""edgellm's own routes: the whole Client protocol, nothing lost. What SocketClient speaks.

Every route is a POST of an object with the method's parameters. `submit` and `load` answer line by
line; losing the connection aborts them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from edgellm.client.socket import PREFIX
from edgellm.errors import EdgeLLMError
from edgellm.holes import Hole
from edgellm.server.failures import Failure
from edgellm.server.prompts import refuse_long, texts_of
from edgellm.server.routes import LINES, Call, Family, Put, Reply, Route, Stream, json_line
from edgellm.types import LoadOptions, Message, Messages, Pooling, Request
from edgellm.wire import decode, encode, encode_error, encode_event

_Ids = tuple[int, ...]


def native_error(failure: Failure) -> Mapping[str, Any]:
    return {"error": encode_error(failure.error), "status": failure.status}


async def submit(call: Call) -> Reply:
    request = decode(Request, call.fields)

    async def write(put: Put) -> None:
        await call.service.follow(request, lambda event: put(encode_event(event)))

    return _lines(write)


async def abort(call: Call) -> Reply:
    await call.service.client.abort(_field(call, "request_id", str, ""))
    return {}


async def models(call: Call) -> Reply:
    return [encode(info) for info in await call.service.client.models()]


async def load(call: Call) -> Reply:
    name = _field(call, "name", str, "")
    options = _field(call, "options", LoadOptions, LoadOptions())
    call.service.check_load(name, options)
    return _lines(partial(_load, call, name, options))


async def use(call: Call) -> Reply:
    info = await call.service.client.use(
        _field(call, "name", str), _field(call, "keep_alive", float)
    )
    return {"model": encode(info)}


async def unload(call: Call) -> Reply:
    await call.service.client.unload(_field(call, "name", str, ""))
    return {}


async def details(call: Call) -> Reply:
    found = await call.service.client.details(_field(call, "model", str))
    return dict(encode(found))


async def tokenize(call: Call) -> Reply:
    text = _field(call, "text", str, "")
    refuse_long(text)
    return await call.service.client.tokenize(
        text,
        _field(call, "add_special", bool, True),
        _field(call, "parse_special", bool, True),
        _field(call, "model", str),
    )


async def detokenize(call: Call) -> Reply:
    ids = _field(call, "ids", _Ids, ())
    return await call.service.client.detokenize(ids, _field(call, "model", str))


async def token_bytes(call: Call) -> Reply:
    ids = _field(call, "ids", _Ids, ())
    pieces = await call.service.client.token_bytes(ids, _field(call, "model", str))
    return [piece.decode("latin-1") for piece in pieces]


async def pieces(call: Call) -> Reply:
    ids = _field(call, "ids", _Ids, ())
    return list(await call.service.client.pieces(ids, _field(call, "model", str)))


async def chat_prompt(call: Call) -> Reply:
    return await call.service.client.chat_prompt(*_conversation(call))


async def chat_ids(call: Call) -> Reply:
    return list(await call.service.client.chat_ids(*_conversation(call)))


async def fim_prompt(call: Call) -> Reply:
    hole = _field(call, "hole", Hole, Hole("", ""))
    refuse_long(*texts_of(hole))
    filled = await call.service.client.fim_prompt(
        hole,
        _field(call, "max_tokens", int),
        _field(call, "suffix_limit", int),
        _field(call, "model", str),
    )
    return dict(encode(filled))


async def embed(call: Call) -> Reply:
    found = await call.service.embed(
        _field(call, "texts", tuple[str | _Ids, ...], ()),
        _field(call, "pooling", Pooling),
        _field(call, "truncate", bool, False),
        _field(call, "model", str),
    )
    return [encode(embedding) for embedding in found]


async def rerank(call: Call) -> Reply:
    found = await call.service.rerank(
        _field(call, "query", str, ""),
        _field(call, "documents", tuple[str, ...], ()),
        _field(call, "model", str),
    )
    return [encode(embedding) for embedding in found]


async def save_session(call: Call) -> Reply:
    info = await call.service.client.save_session(
        _field(call, "name", str, ""),
        _field(call, "ids", _Ids, ()),
        _field(call, "messages", tuple[Message, ...], ()),
        _field(call, "model", str),
    )
    return dict(encode(info))


async def restore_session(call: Call) -> Reply:
    session = await call.service.client.restore_session(
        _field(call, "name", str, ""), _field(call, "model", str)
    )
    return dict(encode(session))


async def sessions(call: Call) -> Reply:
    return [encode(info) for info in await call.service.client.sessions()]


async def delete_session(call: Call) -> Reply:
    await call.service.client.delete_session(_field(call, "name", str, ""))
    return {}


async def stats(call: Call) -> Reply:
    return dict(encode(await call.service.client.stats()))


_HANDLERS = (
    submit,
    abort,
    models,
    load,
    use,
    unload,
    details,
    tokenize,
    detokenize,
    token_bytes,
    pieces,
    chat_prompt,
    chat_ids,
    fim_prompt,
    embed,
    rerank,
    save_session,
    restore_session,
    sessions,
    delete_session,
    stats,
)
FAMILY = Family(
    tuple(Route("POST", f"{PREFIX}/{handler.__name__}", handler) for handler in _HANDLERS),
    native_error,
)


def _lines(write: Callable[[Put], Awaitable[None]]) -> Stream:
    return Stream(write, json_line, LINES, native_error)


def _field(call: Call, name: str, kind: Any, default: Any = None) -> Any:
    """A parameter of this type; null and missing are the default."""
    value = call.fields.get(name)
    return default if value is None else decode(kind, value, name)


def _conversation(
    call: Call,
) -> tuple[Messages, list[Message] | None, str | None, Mapping[str, Any]]:
    tools = _field(call, "tools", tuple[dict[str, Any], ...])
    return (
        _field(call, "messages", tuple[dict[str, Any], ...], ()),
        None if tools is None else list(tools),
        _field(call, "model", str),
        _field(call, "variables", dict[str, Any], {}),
    )


class _Progress:
    """A Report whose lines the loop puts out, while somebody reads them."""

    def __init__(self, put: Put) -> None:
        self.is_left = False  # nobody reads any more, and the loading is to end
        self._put = put
        self._loop = asyncio.get_running_loop()

    def advance(self, what: str, done: int, total: int | None) -> None:
        self._post({"stage": what, "done": done, "total": total})

    def count(self, what: str, done: int, total: int) -> None:
        self._post({"counted": what, "done": done, "total": total})

    def note(self, text: str) -> None:
        self._post({"note": text})

    def _post(self, line: dict[str, Any]) -> None:
        if self.is_left:
            raise EdgeLLMError("whoever asked for the model has gone")
        with suppress(RuntimeError):  # the loop has ended before the model has
            self._loop.call_soon_threadsafe(self._say, line)

    def _say(self, line: dict[str, Any]) -> None:
        if not self.is_left:
            self._put(line)


async def _load(call: Call, name: str, options: LoadOptions, put: Put) -> None:
    """What is told while a model is loaded, then the model."""
    progress = _Progress(put)
    try:
        info = await call.service.client.load(name, options, progress)
    finally:
        progress.is_left = True
    put({"model": encode(info)})
