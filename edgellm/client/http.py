"""One HTTP/1.1 exchange over a Unix socket or TCP. Knows nothing of what is exchanged."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import h11

from edgellm import token_file
from edgellm.errors import ConnectionFailed, RequestError

_READ_SIZE = 1 << 16  # bytes
_CONNECT_SECONDS = 10.0
_HOST_AND_PORT = re.compile(r"[^/]+:\d{1,5}")


@dataclass(frozen=True)
class Address:
    """Where a server listens: a Unix socket's path, or a host and port."""

    path: Path | None = None
    host: str = "localhost"
    port: int = 0
    tls: bool = False

    def __str__(self) -> str:
        return str(self.path or self.name)

    @property
    def name(self) -> str:
        """What the Host header says."""
        if self.path is not None:
            return "localhost"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`host:port`, `http://...` or `https://...`; else the path of a Unix socket."""
    if _HOST_AND_PORT.fullmatch(text):
        text = f"http://{text}"
    if not text.startswith(("http://", "https://")):
        return Address(path=Path(text))
    try:
        parts = urlsplit(text)
        host, port = (parts.hostname or "").encode("idna").decode(), parts.port
    except ValueError as error:
        raise RequestError(f"{text!r} is no address: {error}") from None
    if not host or parts.path.strip("/") or parts.query:
        raise RequestError(f"{text!r} is no address: http://HOST:PORT is expected")
    tls = parts.scheme == "https"
    return Address(host=host, port=port or (443 if tls else 80), tls=tls)


class Response:
    """Status and body of an answer, the body as it comes."""

    def __init__(self, status: int, connection: h11.Connection, reader: asyncio.StreamReader):
        self.status = status
        self._connection = connection
        self._reader = reader

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body in pieces, all that has arrived in one. ConnectionFailed when it ends too
        early."""
        arrived: list[bytes] = []
        while True:
            event = _parsed(self._connection)
            if isinstance(event, h11.Data):
                arrived.append(event.data)
                continue
            if arrived:
                yield b"".join(arrived)
                arrived.clear()
            if isinstance(event, h11.EndOfMessage):
                return
            await _read(self._connection, self._reader)

    async def body(self) -> bytes:
        return b"".join([piece async for piece in self.pieces()])

    async def lines(self) -> AsyncIterator[list[bytes]]:
        """The body's lines without their ends, all that have arrived at once."""
        rest = b""
        async for piece in self.pieces():
            *whole, rest = (rest + piece).split(b"\n")
            if whole:
                yield whole
        if rest:
            yield [rest]


@asynccontextmanager
async def exchange(
    address: Address, method: str, target: str, body: bytes = b"", api_key: str | None = None
) -> AsyncIterator[Response]:
    """Sends a request on a connection of its own; leaving the block closes the connection.

    ConnectionFailed when nobody listens there, or what answers speaks no HTTP. RequestError for a
    key that no header can hold.
    """
    if address.path is not None and not token_file.has_unix_sockets():
        told, api_key = token_file.read_token_file(address.path)
        address = parse_address(told)
    reader, writer = await _connect(address)
    try:
        connection = h11.Connection(h11.CLIENT)
        headers = [
            (b"Host", address.name.encode()),
            (b"Content-Length", str(len(body)).encode()),
            (b"Content-Type", b"application/json"),
            (b"Connection", b"close"),
        ]
        if api_key is not None:
            headers.append((b"Authorization", f"Bearer {api_key}".encode()))
        try:
            request = h11.Request(method=method, target=target, headers=headers)
        except h11.LocalProtocolError:
            raise RequestError(
                "the API key has blanks around it, or line ends: leave them out", "api_key"
            ) from None
        for event in (request, h11.Data(data=body), h11.EndOfMessage()):
            writer.write(connection.send(event) or b"")
        try:
            await writer.drain()
        except OSError as error:
            raise ConnectionFailed(f"{address}: the connection broke: {error}") from None
        response = await _next_event(connection, reader)
        while isinstance(response, h11.InformationalResponse):
            response = await _next_event(connection, reader)
        if not isinstance(response, h11.Response):
            raise ConnectionFailed(f"{address}: the connection closed before an answer came")
        yield Response(response.status_code, connection, reader)
    finally:
        writer.close()


async def _connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            if address.path is not None:
                return await asyncio.open_unix_connection(address.path)
            context = ssl.create_default_context() if address.tls else None
            return await asyncio.open_connection(address.host, address.port, ssl=context)
    except (OSError, TimeoutError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConnectionFailed(
            f"no server answers at {address} ({reason or 'timed out'}): start one with "
            "`edgellm serve`"
        ) from None


async def _next_event(connection: h11.Connection, reader: asyncio.StreamReader) -> object:
    while (event := _parsed(connection)) is h11.NEED_DATA:
        await _read(connection, reader)
    return event


async def _read(connection: h11.Connection, reader: asyncio.StreamReader) -> None:
    """Waits for more bytes. ConnectionFailed when it broke."""
    try:
        connection.receive_data(await reader.read(_READ_SIZE))
    except (h11.RemoteProtocolError, OSError) as error:
        raise _cut(error) from None


def _parsed(connection: h11.Connection) -> object:
    """What the bytes so far begin with. ConnectionFailed when they are no HTTP, or are cut."""
    try:
        return connection.next_event()
    except h11.RemoteProtocolError as error:
        raise _cut(error) from None


def _cut(error: Exception) -> ConnectionFailed:
    return ConnectionFailed(f"the connection closed before the answer ended: {error}")
