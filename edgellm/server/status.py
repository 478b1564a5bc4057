"""The page at `/`: what the server is doing, for people. One static file and its numbers."""

import time
from dataclasses import asdict
from functools import cache
from importlib.resources import files

from edgellm.server.routes import Call, Plain, Reply, Route
from edgellm.version import __version__


@cache
def _page() -> bytes:
    return files("edgellm.server").joinpath("status.html").read_bytes()


async def page(call: Call) -> Reply:
    return Plain(_page(), b"text/html; charset=utf-8")


async def numbers(call: Call) -> Reply:
    """What the page shows, asked again every second."""
    client = call.service.client
    stats = await client.stats()
    return {
        "version": __version__,
        "time": time.time(),
        "started": call.service.started,
        "is_loading": call.service.is_loading,
        "in_flight": call.service.in_flight,
        "max_requests": call.service.settings.max_requests,
        "totals": asdict(call.service.totals),
        "models": [
            {
                "name": info.name,
                "architecture": info.architecture,
                "backend": info.backend,
                "context_length": info.context_length,
                "max_num_seqs": info.max_num_seqs,
                **asdict(stats[info.name]),
            }
            for info in await client.models()
            if info.name in stats
        ],
    }


ROUTES = (
    Route("GET", "/", page, public=True),
    Route("GET", "/edgellm/v1/status", numbers),
)
