"""A short version of benchmarks/server_load.py: rude clients, and nothing lost, mixed or left."""

import asyncio
import sys
from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edgellm.client import LocalClient
from edgellm.client.http import parse_address
from edgellm.server.listen import tcp_listener
from edgellm.server.settings import Settings
from tests.mock_model import MockModel, make_manager, noise
from tests.server.serving import running, serving
from tests.waiting import PATIENCE, wait_until

KINDS = {"whole answers", "answers left", "oversize prompts", "requests cut short"}
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "server_load.py"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = spec_from_file_location("server_load", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "server_load", module)  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PROMPTS", ("one", "two", "three"))
    return module


@pytest.mark.parametrize("way", ["tcp", "unix"])
def test_rude_clients(load: ModuleType, way: str, tmp_path: Path) -> None:
    with running(make_manager(MockModel(noise)), tmp_path, Settings(max_requests=6)) as server:
        address = parse_address(getattr(server, way))
        counts = Counter[str]()
        while not counts.keys() >= KINDS:  # a slow machine may need longer for all of them
            outcome = asyncio.run(load.run_traffic(address, 12, 1.5, 12))
            assert outcome.wrong == []
            counts += outcome.counts
        wait_until(lambda: not server.service.in_flight)
        stats = asyncio.run_coroutine_threadsafe(server.service.client.stats(), server.loop)
        (found,) = stats.result(PATIENCE).values()
        assert (server.service.in_flight, found.running, found.waiting) == (0, 0, 0)
        assert server.service.totals.refused == 0 or counts["told to try again"]


def test_an_idle_server_sleeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No timer wakes it: it takes no processor time."""

    timers = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        call_at = loop.call_at

        def counted(*args: Any, **more: Any) -> asyncio.TimerHandle:
            timers.append(args)
            return call_at(*args, **more)

        listener = tcp_listener("127.0.0.1", 0)
        async with LocalClient(make_manager(MockModel(noise))) as client, serving(client, listener):
            with monkeypatch.context() as patch:
                patch.setattr(loop, "call_at", counted)
                while len(timers) != 1:  # this test's own: what starts a server is over then
                    timers.clear()
                    await asyncio.sleep(0.3)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
