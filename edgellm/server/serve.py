"""Runs a server on its sockets until it is told to stop. Knows nothing of routes."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager

import uvicorn

from edgellm.server.app import make_app
from edgellm.server.listen import Listener
from edgellm.server.protocol import Connection
from edgellm.server.service import Service

_LAST_WORDS = 5.0  # seconds that the ends of aborted answers may take to be sent
_KEEP_ALIVE = 75  # seconds that a connection may idle between requests


class _Server(uvicorn.Server):
    """uvicorn's server that sleeps until it is to end, and leaves signals to its caller."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        self._ending.set()

    async def main_loop(self) -> None:
        await self._ending.wait()  # uvicorn's own looks ten times a second

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


async def serve(
    service: Service,
    listeners: Sequence[Listener],
    prepare: Callable[[], Awaitable[None]],
    stop: asyncio.Event,
    grace: float = 10.0,
) -> None:
    """Serves until `stop`; running answers then have `grace` seconds, and end where they are.

    prepare: awaited once the sockets answer, to load models; its error ends the server.
    """
    config = uvicorn.Config(
        make_app(service),
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # what goes wrong in a request is told in our own log
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=math.ceil(grace + _LAST_WORDS),
        h11_max_incomplete_event_size=service.settings.max_header,
    )
    server = _Server(config)
    service.is_loading = True
    serving = asyncio.ensure_future(server.serve([listener.socket for listener in listeners]))
    preparing = asyncio.ensure_future(prepare())
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({preparing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if preparing.done():
            preparing.result()
            service.is_loading = False
            await stopping
    finally:
        preparing.cancel()
        stopping.cancel()
        server.end()
        ending = asyncio.ensure_future(_end_answers(service, grace))
        await serving
        ending.cancel()
        await asyncio.gather(preparing, stopping, ending, return_exceptions=True)


async def _end_answers(service: Service, grace: float) -> None:
    await asyncio.sleep(grace)
    await service.abort_all()
