"""uvicorn's HTTP/1.1 connection, with an end to those that neither say nor read anything, and a
look at who calls.

Knows nothing of requests.
"""

import asyncio
import os
import socket
import struct
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 20.0  # until a request's headers must have arrived
STALL_SECONDS = 60.0  # that a full connection waits for its reader

PIECE = "edgellm.piece"  # an ASGI extension: Connection.write_piece of the request's connection

_CREDENTIALS = struct.Struct("3i")  # process, user, group


class Connection(H11Protocol):
    """Closes a connection whose request's headers do not arrive, whose answer nobody reads, or
    that is another user's."""

    header_seconds = HEADER_SECONDS
    stall_seconds = STALL_SECONDS
    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        peer: socket.socket = transport.get_extra_info("socket")
        if peer.family == getattr(socket, "AF_UNIX", None):
            if not _may_call(peer):
                self.transport.abort()
                return
        else:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def write_piece(self, data: bytes) -> bool:
        """Sends more of a body whose length is not told, past the layers that frame it anew.

        False where it must go through them: the body has not begun, or its reader is slow.
        """
        cycle = self.cycle
        if not cycle.response_started or not data:  # a chunk of nothing would be the end
            return False
        if self.transport.is_closing():  # nobody reads it, as the request will be told
            return True
        if cycle.disconnected or self.flow.write_paused:
            return False
        is_chunked = self.conn.their_http_version == b"1.1"
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data) if is_chunked else data)
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(self.stall_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reads_again()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()
        self._reads_again()

    def _reads_again(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _watch(self) -> None:
        """Starts the clock when headers are awaited, stops it when they are there."""
        awaits_headers = self.cycle is None or self.cycle.response_complete
        if not awaits_headers:
            scope = cast(dict[str, Any], self.scope)
            scope["extensions"] = {PIECE: self.write_piece}
            self._forget()
        elif self._deadline is None and self.timeout_keep_alive_task is None:
            self._deadline = self.loop.call_later(self.header_seconds, self._give_up)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        self.transport.close()


def _may_call(peer: socket.socket) -> bool:
    """Whether this user or root calls, where the system tells."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    _, user, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, option, 12))
    return user in (0, os.getuid())
