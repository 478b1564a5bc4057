"""The way of a stream's parts out of the server. Knows nothing of HTTP, nor of what they say."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self


class Outlet:
    """Takes pieces of a reply in order, at any time, and waits for nothing.

    write: sends bytes at once, or says that it cannot: the reply has not begun, or its reader is
    slow. send: sends them in any case; what comes meanwhile waits and goes out together. soon: has
    what it is given called when no more pieces come for now, so that those of several tokens are
    one write.
    """

    def __init__(
        self,
        write: Callable[[bytes], bool],
        send: Callable[[bytes], Awaitable[None]],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._soon = soon
        self._write = write
        self._send = send
        self._waiting: list[bytes] = []
        self._sending: asyncio.Task[None] | None = None

    def put(self, data: bytes) -> None:
        self._waiting.append(data)
        if len(self._waiting) == 1 and self._sending is None:
            self._soon(self._flush)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Returns when all is sent; nothing more is when nobody wants the reply."""
        if kind is not None and issubclass(kind, asyncio.CancelledError):
            self._waiting.clear()
            if self._sending is not None:
                self._sending.cancel()
            return
        self._flush()
        while self._sending is not None:
            await self._sending

    def _flush(self) -> None:
        if not self._waiting or self._sending is not None:
            return
        if self._write(b"".join(self._waiting)):
            self._waiting.clear()
        else:
            self._sending = asyncio.ensure_future(self._send_waiting())

    async def _send_waiting(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                await self._send(b"".join(waiting))
        finally:
            self._sending = None
