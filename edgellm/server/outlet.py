"""The way of a stream's parts out of the server. Knows nothing of HTTP, nor of what they say."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self


class Outlet:
    """Takes pieces of a reply in order, at any time, and waits for nothing.

    write: sends a piece at once, or says that it cannot: the reply has not begun, or its reader is
    slow. send: sends it in any case; what comes meanwhile waits and goes out together.
    """

    def __init__(
        self, write: Callable[[bytes], bool], send: Callable[[bytes], Awaitable[None]]
    ) -> None:
        self._write = write
        self._send = send
        self._waiting: list[bytes] = []
        self._sending: asyncio.Task[None] | None = None

    def put(self, data: bytes) -> None:
        if self._sending is None and self._write(data):
            return
        self._waiting.append(data)
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._send_waiting())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Returns when all is sent; nothing more is when nobody wants the reply."""
        if kind is not None and issubclass(kind, asyncio.CancelledError):
            if self._sending is not None:
                self._sending.cancel()
            return
        while self._sending is not None:
            await self._sending

    async def _send_waiting(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                await self._send(b"".join(waiting))
        finally:
            self._sending = None
