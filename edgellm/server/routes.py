"""What a route is: a row with a handler, from a request's fields to what is sent. Data and frames.

A Family tells how an API writes errors down. Knows nothing of connections.
"""

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Any

from edgellm.server.failures import Failure, Refusal
from edgellm.server.service import Service

to_json = json.JSONEncoder(separators=(",", ":")).encode

EVENTS, LINES = b"text/event-stream", b"application/x-ndjson"
NOT_HERE = "models are fetched and removed on the command line: edgellm pull, edgellm rm"


@dataclass(frozen=True)
class Call:
    """One request. fields: the JSON object of its body; path, query: the parts of its URL."""

    service: Service
    fields: Mapping[str, Any]
    path: Mapping[str, str]
    query: Mapping[str, str]


Put = Callable[[Any], None]  # takes a part of a stream and waits for nothing


@dataclass(frozen=True)
class Stream:
    """A reply that comes in parts. write: puts them out as they become known, and returns after the
    last. frame: a part's bytes, which it may also come as. end: those after the last part.

    failure: the part that tells of an error once the reply has begun. silence: as in Settings, for
    this stream; infinite is never.
    """

    write: Callable[[Put], Awaitable[None]]
    frame: Callable[[Any], bytes]
    media_type: bytes
    failure: Callable[[Failure], Any]
    end: bytes = b""
    silence: float | None = None


@dataclass(frozen=True)
class Plain:
    """A reply that is not JSON."""

    body: bytes
    media_type: bytes = b"text/plain; charset=utf-8"


Reply = Stream | Plain | Mapping[str, Any] | list[Any] | str  # the last three as JSON
Handler = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True)
class Route:
    """method: of HTTP; GET is also HEAD. path: as Starlette writes it. public: needs no API key.

    takes: fields it reads that are worth telling of, by their names in `openapi.FIELDS`. needs:
    those of them that must be there. samples: it also takes those of SamplingParams. list_as: the
    field that a list for a body stands for.
    """

    method: str
    path: str
    handler: Handler
    public: bool = False
    takes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    samples: bool = False
    list_as: str | None = None


def refused(method: str, path: str, why: str) -> Route:
    """A route that other servers have and this one has not. why: what is so, or to be done."""

    async def refuse(call: Call) -> Reply:
        raise Refusal(501, "not_supported_error", why)

    return Route(method, path, refuse)


@dataclass(frozen=True)
class Family:
    """One API: its routes, and how it writes an error."""

    routes: tuple[Route, ...]
    error: Callable[[Failure], Mapping[str, Any]]


class TextFrame:
    """The frame of a part in which one text alone changes: made once, filled in for each piece.

    frame: as in Stream. part: the part that says a text.
    """

    def __init__(self, frame: Callable[[Any], bytes], part: Callable[[str], Any]) -> None:
        mark = os.urandom(12).hex()  # no other text of the part
        self._before, self._after = frame(part(mark)).split(f'"{mark}"'.encode())

    def __call__(self, text: str) -> bytes:
        return b"%b%b%b" % (self._before, encode_basestring_ascii(text).encode(), self._after)


def json_line(part: Any) -> bytes:
    """A frame of NDJSON."""
    return to_json(part).encode() + b"\n"


def server_sent(part: Any) -> bytes:
    """A frame of server-sent events."""
    return b"data: " + to_json(part).encode() + b"\n\n"


def typed_server_sent(part: Mapping[str, Any]) -> bytes:
    """A frame of server-sent events whose name is the part's type."""
    return f"event: {part['type']}\n".encode() + server_sent(part)
