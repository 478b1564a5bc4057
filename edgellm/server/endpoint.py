"""One path of the server: reads the request, has it handled, writes the reply.

A request whose client has gone is cancelled at once, which frees its sequence. Knows no API.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from edgellm.errors import RequestError
from edgellm.server.failures import Refusal, failure_of
from edgellm.server.guard import check, cors_headers
from edgellm.server.outlet import Outlet
from edgellm.server.protocol import PIECE
from edgellm.server.routes import (
    EVENTS,
    Call,
    Family,
    Handler,
    Plain,
    Put,
    Route,
    Stream,
    to_json,
)
from edgellm.server.service import Service
from edgellm.wire import json_name

_log = logging.getLogger("edgellm.server")

Headers = list[tuple[bytes, bytes]]
_DISCARD_SECONDS = 2.0
_SHOWN_PATH = 200  # characters
_COMMENT = b": still at work\n\n"  # which readers of server-sent events skip


class Endpoint:
    """The ASGI application of one path. routes: its methods; none where nothing is."""

    def __init__(self, service: Service, family: Family, routes: Mapping[str, Route]) -> None:
        self._service = service
        self._family = family
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(scope, receive, send, self._service, self._family)
        if scope["method"] == "OPTIONS":
            await answer.preflight()
            return
        route = self._routes.get("GET" if scope["method"] == "HEAD" else scope["method"])
        await answer.run(route, self._routes.keys())


class _Answer:
    """One request being answered."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, service: Service, family: Family
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._service = service
        self._family = family
        self._status: int | None = None  # once the reply has begun
        self._num_bytes = 0
        self._is_read = False  # all of the body
        self._is_complete = False
        self._allowed = b""  # methods, where another one was asked
        self._begun = time.monotonic()

    async def preflight(self) -> None:
        headers = cors_headers(self._scope, self._service.settings)
        await self._write(204 if headers else 403, b"", b"text/plain", headers)

    async def run(self, route: Route | None, methods: Any) -> None:
        fields: Mapping[str, Any] = {}
        try:
            check(self._scope, self._service.settings, route is not None and route.public)
            if route is None:
                raise self._no_route(methods)
            fields = await self._fields(route.list_as)
            call = Call(
                self._service,
                fields,
                self._scope.get("path_params", {}),
                dict(parse_qsl(self._scope["query_string"].decode("latin-1"))),
            )
        except Exception as error:
            await self._discard()
            await self._fail(error, close=not self._is_read)
        else:
            await self._while_connected(self._handle(route.handler, call))
        self._note(fields)

    def _no_route(self, methods: Any) -> Refusal:
        if not methods:
            path = self._scope["path"][:_SHOWN_PATH]
            what = f"there is no {path!r} here: GET /openapi.json tells what there is"
            return Refusal(404, "not_found_error", what)
        self._allowed = _allowed(methods)
        what = f"{self._scope['method']} is not allowed: use {' or '.join(sorted(methods))}"
        return Refusal(405, "invalid_request_error", what)

    def _note(self, fields: Mapping[str, Any]) -> None:
        """A line of the log, without what was said unless that is asked for."""
        if not _log.isEnabledFor(logging.INFO):
            return
        entry: dict[str, Any] = {
            "time": time.time(),
            "method": self._scope["method"],
            "path": self._scope["path"],
            "status": self._status,
            "seconds": round(time.monotonic() - self._begun, 6),
            "bytes": self._num_bytes,
            "complete": self._is_complete,
        }
        if self._service.settings.log_prompts:
            entry["fields"] = fields
        _log.info(to_json(entry))

    async def _while_connected(self, work: Awaitable[None]) -> None:
        """Does the work unless the client goes away before it is done."""
        tasks = {asyncio.ensure_future(work), asyncio.ensure_future(self._disconnected())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _disconnected(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _handle(self, handler: Handler, call: Call) -> None:
        stream: Stream | None = None
        try:
            async with asyncio.timeout(self._service.settings.deadline):
                reply = await handler(call)
                if isinstance(reply, Stream):
                    stream = reply
                    await self._stream(stream)
                elif isinstance(reply, Plain):
                    await self._write(200, reply.body, reply.media_type)
                else:
                    await self._write(200, to_json(reply).encode(), b"application/json")
        except Exception as error:
            await self._fail(error, stream)

    async def _stream(self, stream: Stream) -> None:
        """Sends the parts of a reply as they come; it begins with the first one."""

        async def send(data: bytes) -> None:
            if self._status is None:
                await self._start(200, stream.media_type, [(b"cache-control", b"no-cache")])
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

        write = self._scope.get("extensions", {}).get(PIECE, _no_piece)
        outlet = Outlet(write, send, self._service.client.after_events)

        def put(part: Any) -> None:
            data = part if isinstance(part, bytes) else stream.frame(part)
            self._num_bytes += len(data)
            outlet.put(data)

        breaking = asyncio.ensure_future(self._break_silences(stream, put))
        try:
            async with outlet:
                await stream.write(put)
        finally:
            breaking.cancel()
        await self._send_body(stream.end)

    async def _break_silences(self, stream: Stream, put: Put) -> None:
        """Sends a comment whenever nothing was sent for a while, as during a long prompt, so that
        neither the client nor what is between takes the connection for dead."""
        seconds = stream.silence or self._service.settings.silence
        while stream.media_type == EVENTS:
            before = self._num_bytes
            await asyncio.sleep(seconds)
            if self._num_bytes == before:
                put(_COMMENT)

    async def _fail(
        self, error: Exception, stream: Stream | None = None, close: bool = False
    ) -> None:
        failure = failure_of(error)
        if failure.status == 500:
            _log.error("%s failed", self._scope["path"], exc_info=error)
        if self._status is not None:
            end = stream.frame(stream.failure(failure)) + stream.end if stream else b""
            await self._send_body(end)
            return
        body = to_json(self._family.error(failure)).encode()
        headers = [(b"connection", b"close")] if close else []
        if self._allowed:
            headers.append((b"allow", self._allowed))
        if failure.retry_after is not None:
            headers.append((b"retry-after", str(failure.retry_after).encode()))
        if failure.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await self._write(failure.status, body, b"application/json", headers)

    async def _fields(self, list_as: str | None) -> Mapping[str, Any]:
        """The JSON object in the body; nothing is an empty one."""
        body = bytearray()
        try:
            async with asyncio.timeout(self._service.settings.read_deadline):
                more = True
                while more:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        break
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > self._service.settings.max_body:
                        raise _too_large(self._service.settings.max_body)
        except TimeoutError:
            raise Refusal(408, "timeout_error", "the body did not arrive in time") from None
        self._is_read = True
        return _parsed(bytes(body), list_as) if body else {}

    async def _discard(self) -> None:
        """Reads what is left of a body: a client that still sends when the connection ends would
        not hear the answer (RFC 9112, section 9.6)."""
        waits = any(name == b"expect" for name, _ in self._scope["headers"])  # to be told to send
        with suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_SECONDS):
                while not (self._is_read or waits):
                    message = await self._receive()
                    self._is_read = not message.get("more_body", False)

    async def _write(
        self, status: int, body: bytes, media_type: bytes, headers: Headers | None = None
    ) -> None:
        length = (b"content-length", str(len(body)).encode())
        await self._start(status, media_type, [length, *(headers or [])])
        await self._send_body(body)

    async def _start(self, status: int, media_type: bytes, headers: Headers) -> None:
        self._status = status
        cors = cors_headers(self._scope, self._service.settings)
        all_headers = [(b"content-type", media_type), *headers, *cors]
        await self._send({"type": "http.response.start", "status": status, "headers": all_headers})

    async def _send_body(self, data: bytes) -> None:
        """The rest of it."""
        await self._send({"type": "http.response.body", "body": data, "more_body": False})
        self._num_bytes += len(data)
        self._is_complete = True


def _no_piece(data: bytes) -> bool:
    """Where the connection has no way of its own for pieces."""
    return False


def _parsed(body: bytes, list_as: str | None = None) -> Mapping[str, Any]:
    try:
        value = json.loads(body)
    except UnicodeDecodeError as error:
        raise RequestError(f"the body is not UTF-8: {error.reason} at {error.start}") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {error}") from None
    except ValueError:
        raise RequestError("the body has a number of thousands of digits: shorten it") from None
    if list_as is not None and isinstance(value, list):
        return {list_as: value}
    if not isinstance(value, dict):
        raise RequestError(f"the body is {json_name(type(value))}; an object is expected")
    return value


def _too_large(most: int) -> Refusal:
    return Refusal(413, "invalid_request_error", f"the body is larger than {most} bytes")


def _allowed(methods: Any) -> bytes:
    """As the header of that name lists them."""
    names = {"OPTIONS", *methods, *(["HEAD"] if "GET" in methods else [])}
    return ", ".join(sorted(names)).encode()
