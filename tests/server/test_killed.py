"""A server that is killed leaves what it saved: the next one goes on with it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from edgellm.client import SocketClient
from edgellm.completion import collect
from edgellm.errors import ConnectionFailed
from edgellm.types import Completion, Request, SamplingParams
from tests.cli.test_serve import ROOT, wait_for
from tests.models.tiny import write_tiny
from tests.test_prefix_cache import BASE
from tests.test_sessions import tokenizer
from tests.waiting import PATIENCE

PARAMS = SamplingParams(temperature=0, max_tokens=4, logprobs=3, ignore_eos=True)
PROMPT = tuple(BASE[:50])


@contextmanager
def server(model: Path, folder: Path) -> Iterator[SocketClient]:
    """`edgellm serve` in a process that is killed at the end of the block."""
    path = folder / "edgellm.sock"
    command = [sys.executable, "-m", "edgellm", "serve", "--socket", str(path), "--threads", "1"]
    command += ["--context", "120", str(model)]
    environment = {**os.environ, "XDG_DATA_HOME": str(folder / "data")}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    try:
        yield SocketClient(str(path))
    finally:
        process.kill()
        assert process.wait(PATIENCE) == -signal.SIGKILL


@asynccontextmanager
async def ready(client: SocketClient) -> AsyncIterator[None]:
    await wait_for(client)
    while not await client.models():
        await asyncio.sleep(0.02)
    yield


async def ask(client: SocketClient, prompt: tuple[int, ...]) -> Completion:
    return collect([event async for event in client.submit(Request(prompt, PARAMS))])


@pytest.mark.skipif("EDGELLM_HOME" in os.environ, reason="its sessions would be the user's own")
def test_a_session_outlives_the_server(tmp_path: Path) -> None:
    model = write_tiny(tmp_path, "llama", tokenizer)

    async def save(client: SocketClient) -> tuple[tuple[int, ...], Completion]:
        async with ready(client):
            done = await ask(client, PROMPT)
            turn = (*PROMPT, *done.token_ids, 5, 6)
            await client.save_session("a", turn[:-2], [{"role": "user", "content": "hi"}])
            return turn, await ask(client, turn)

    async def restore(client: SocketClient, turn: tuple[int, ...]) -> Completion:
        async with ready(client):
            (info,) = await client.sessions()
            assert (info.name, info.num_tokens) == ("a", len(turn) - 2)
            session = await client.restore_session("a")
            assert session.token_ids == turn[:-2]
            assert session.messages == ({"role": "user", "content": "hi"},)
            return await ask(client, turn)

    with server(model, tmp_path) as client:
        turn, expected = asyncio.run(save(client))
    with pytest.raises(ConnectionFailed):
        asyncio.run(client.sessions())
    with server(model, tmp_path) as client:
        again = asyncio.run(restore(client, turn))
    assert again.usage.cached_tokens == len(turn) - 3
    assert again.logprobs == expected.logprobs
