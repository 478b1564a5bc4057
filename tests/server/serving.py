"""A server with a scripted model, in this process, for tests of routes and clients."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgellm.client import Client, LocalClient
from edgellm.client.http import Response, exchange, parse_address
from edgellm.manager import Manager
from edgellm.server.listen import Listener, tcp_listener, unix_listener
from edgellm.server.serve import serve
from edgellm.server.service import Service
from edgellm.server.settings import Settings
from tests.waiting import PATIENCE


@asynccontextmanager
async def serving(
    client: Client, listener: Listener, settings: Settings | None = None
) -> AsyncIterator[Service]:
    """A server that answers from the moment the block begins until it ends."""
    service, stop, ready = Service(client, settings or Settings()), asyncio.Event(), asyncio.Event()
    service.reload_catalog()

    async def prepare() -> None:
        ready.set()

    server = asyncio.ensure_future(serve(service, [listener], prepare, stop, grace=0.2))
    try:
        await asyncio.wait_for(ready.wait(), PATIENCE)
        while service.is_loading:
            await asyncio.sleep(0)
        yield service
    finally:
        stop.set()
        await server
        listener.close()


@dataclass(frozen=True)
class Running:
    """A server in a thread. tcp: http://host:port; unix: the path of its socket."""

    tcp: str
    unix: str
    service: Service
    loop: asyncio.AbstractEventLoop

    def ask(self, method: str, target: str, fields: Any = None) -> tuple[int, Any]:
        """Status and JSON of an answer; text where it is no JSON."""
        body = b"" if fields is None else json.dumps(fields).encode()

        async def main() -> tuple[int, bytes]:
            async with exchange(parse_address(self.tcp), method, target, body) as response:
                return response.status, await response.body()

        status, raw = asyncio.run(main())
        try:
            return status, json.loads(raw)
        except ValueError:
            return status, raw.decode()


@contextmanager
def running(manager: Manager, folder: Path, settings: Settings | None = None) -> Iterator[Running]:
    """A server in a thread of its own, on TCP and on a Unix socket, for clients that block."""
    started: list[Running] = []
    ready, stop = threading.Event(), asyncio.Event()

    async def main() -> None:
        listeners = [tcp_listener("127.0.0.1", 0), unix_listener(folder / "edgellm.sock")]
        async with LocalClient(manager) as client:
            service = Service(client, settings or Settings())

            async def prepare() -> None:
                loop = asyncio.get_running_loop()
                loop.call_soon(ready.set)
                started.append(Running(listeners[0].where, listeners[1].where, service, loop))

            try:
                await serve(service, listeners, prepare, stop, grace=0.2)
            finally:
                for listener in listeners:
                    listener.close()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert ready.wait(PATIENCE), "the server did not start"
        yield started[0]
    finally:
        started[0].loop.call_soon_threadsafe(stop.set)
        thread.join()


async def lines_of(response: Response) -> list[bytes]:
    return [line async for lines in response.lines() for line in lines]
