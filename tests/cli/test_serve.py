"""`edgellm serve`: what it refuses, and that it starts, answers and ends."""

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgellm import cli
from edgellm.client import SocketClient
from edgellm.errors import ConnectionFailed

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0"], "no API key is set"),
        (["--host", "::"], "no API key is set"),
        (["--port", "1", "--socket", "s"], "leave one out"),
        (["--port", "0", "--api-key", ""], "API key is empty"),
        (["--socket", "x" * 200], "too long"),
        (["nothing-like-this"], "no model and no file"),
    ],
)
def test_refusals(
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))
    assert cli.main(["serve", *arguments]) == 2
    assert said in capsys.readouterr().err


async def wait_for(client: SocketClient) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            await client.models()
            return
        except ConnectionFailed:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_starts_ends_and_starts_again(tmp_path: Path, number: int) -> None:
    path = tmp_path / "edgellm.sock"
    command = [sys.executable, "-m", "edgellm", "serve", "--socket", str(path)]

    async def use() -> None:
        client = SocketClient(str(path))
        await wait_for(client)
        assert await client.models() == ()

    for _ in range(2):
        server = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        try:
            asyncio.run(use())
            if number == signal.SIGTERM:
                server.send_signal(signal.SIGHUP)
                asyncio.run(use())
            server.send_signal(number)
            _, said = server.communicate(timeout=30)
        finally:
            server.kill()
        assert said == f"edgellm: listening on {path}\n"
        assert server.returncode == (0 if number == signal.SIGTERM else -number)
        assert path.exists() == (number == signal.SIGKILL)
