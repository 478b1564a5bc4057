"""What Windows has not: a server and its client in a process from which it is taken away."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgellm.cli import serve
from tests.cli.test_serve import ROOT
from tests.waiting import PATIENCE

TAKEN_AWAY = """
import asyncio, os, psutil, signal, socket, sys
pair, unix = socket.socketpair, socket.AF_UNIX
socket.socketpair = lambda *_: pair(unix)
del socket.AF_UNIX, signal.SIGHUP, os.getuid, os.getpriority
sys.modules["fcntl"] = None
def add_signal_handler(*_):
    raise NotImplementedError
asyncio.SelectorEventLoop.add_signal_handler = add_signal_handler
from edgellm.cli import main
"""
SERVES = f"{TAKEN_AWAY}\nsys.exit(main(['serve', '--socket', sys.argv[1]]))"
ASKS = f"""{TAKEN_AWAY}
from edgellm.client import ChildClient, SocketClient
from edgellm.errors import ConnectionFailed
async def ask():
    client = SocketClient(sys.argv[1])
    while True:
        try:
            return await client.models()
        except ConnectionFailed:
            await asyncio.sleep(0.05)
async def of_a_child():
    async with await ChildClient.start((sys.executable, "-c", sys.argv[2])) as child:
        return await child.models()
print(asyncio.run(asyncio.wait_for(ask(), 600)), asyncio.run(asyncio.wait_for(of_a_child(), 600)))
"""
CHILD = f"{TAKEN_AWAY}\nsys.exit(main(['serve', '--private', *sys.argv[1:]]))"


def test_serve_and_ask(tmp_path: Path) -> None:
    path = tmp_path / "run" / "edgellm.sock"
    environment = {**os.environ, "EDGELLM_HOME": str(tmp_path)}
    command = [sys.executable, "-c", SERVES, str(path)]
    server = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        asked = subprocess.run(
            [sys.executable, "-c", ASKS, str(path), CHILD],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
        )
        assert asked.stdout == "() ()\n", asked.stderr
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=PATIENCE)
    finally:
        server.kill()
        server.wait()
    assert server.returncode == 0 and "Traceback" not in said, said
    assert "listening on http://127.0.0.1:" in said and not path.exists()


def test_files_that_are_open_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "in use", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    serve._clear(tmp_path / "engine.sock")
