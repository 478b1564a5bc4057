"""`edgellm serve`: what it refuses, and that it starts, answers and ends."""

import argparse
import asyncio
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgellm import cli
from edgellm.cli import serve
from edgellm.client import SocketClient
from edgellm.errors import ConnectionFailed, RequestError
from edgellm.server.listen import Listener
from edgellm.types import Request, SamplingParams
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0"], "no API key is set"),
        (["--host", "::"], "no API key is set"),
        (["--port", "1", "--socket", "s"], "leave one out"),
        (["--port", "0", "--api-key", ""], "API key is empty"),
        (["--port", "0", "--api-key", "secret\n"], "API key has blanks around it"),
        (["--port", "65536"], "expected 0 to 65535"),
        (["--port=-1"], "expected 0 to 65535"),
        (["--max-requests", "0"], "--max-requests is 0"),
        (["--timeout", "0"], "--timeout is 0"),
        (["--timeout", "nan"], "--timeout is nan"),
        (["--parallel", "0"], "max_num_seqs is 0"),
        (["--threads", "0"], "threads is 0"),
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
    deadline = time.monotonic() + PATIENCE
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
            _, said = server.communicate(timeout=PATIENCE)
        finally:
            server.kill()
        assert said == f"edgellm: listening on {path}\n"
        assert server.returncode == (0 if number == signal.SIGTERM else -number)
        assert path.exists() == (number == signal.SIGKILL)


SCRIPTED = [sys.executable, "-m", "tests.client.scripted_engine"]


def test_a_socket_of_systemd_is_taken_over(tmp_path: Path) -> None:
    """As sd_listen_fds(3) says: the first socket is descriptor 3, and the variables name us."""
    path = tmp_path / "activated.sock"
    with socket.socket(socket.AF_UNIX) as given:
        given.bind(str(path))
        given.listen()
        code = (
            "import os, sys\n"
            f"os.dup2({given.fileno()}, 3)\n"
            "os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))\n"
            "os.execv(sys.executable, [sys.executable, '-m', 'edgellm', 'serve'])\n"
        )
        server = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT,
            pass_fds=[given.fileno()],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            # A connection made before the server is there waits for it.
            assert asyncio.run(SocketClient(str(path)).models()) == ()
            server.send_signal(signal.SIGTERM)
            _, said = server.communicate(timeout=PATIENCE)
        finally:
            server.kill()
    assert (server.returncode, said) == (0, "edgellm: listening on the socket given as 3\n")
    assert path.exists()  # it is not ours


def test_an_open_port_of_systemd_wants_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    args = argparse.Namespace(host=None, port=None, socket=None)
    with socket.create_server(("0.0.0.0", 0)) as given:
        monkeypatch.setattr(serve, "inherited_listeners", lambda: [Listener(given, "given")])
        with pytest.raises(RequestError, match="0.0.0.0 and no API key"):
            serve._listeners(args, ())
        assert serve._listeners(args, ("key",))[0].host == "0.0.0.0"


def test_a_running_answer_may_end_before_the_server(tmp_path: Path) -> None:
    path = tmp_path / "edgellm.sock"
    server = subprocess.Popen(
        [*SCRIPTED, "--socket", str(path)], cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )

    async def ask() -> str:
        client = SocketClient(str(path))
        await wait_for(client)
        text = ""
        async for event in client.submit(Request("hi", SamplingParams(temperature=0))):
            if not text:
                server.send_signal(signal.SIGTERM)
            text += event.text
        return text

    try:
        assert asyncio.run(ask()) == "x" * 60
        assert server.wait(timeout=PATIENCE) == 0
    finally:
        server.kill()
        server.communicate()
