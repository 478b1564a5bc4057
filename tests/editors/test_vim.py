"""The Vim plugin in a real Vim, on a terminal of its own, by keystrokes."""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgellm.manager import Manager
from tests.mock_model import MockModel, make_manager, says
from tests.server.serving import Running, running
from tests.waiting import PATIENCE

PLUGIN = Path(__file__).parents[2] / "editors" / "vim" / "plugin" / "edgellm.vim"
WATCH = """
def Tell(path: string)
  const screen = range(1, 6)->mapnew((_, row) =>
    range(1, 40)->mapnew((_, column) => screenstring(row, column))->join('')->trim(' ', 2))
  const state = {lines: getline(1, '$'), shown: !empty(prop_list(1, {end_lnum: -1})),
    screen: screen, at: getpos('.')[1 : 2], mode: mode(), said: execute('messages')}
  writefile([json_encode(state)], path .. '.new')
  rename(path .. '.new', path)
enddef
"""


def needs_vim() -> str:
    found = shutil.which("vim")
    if found is None:
        pytest.skip("no vim here (apt-get install vim)")
    said = subprocess.run([found, "--version"], capture_output=True, text=True).stdout
    version = re.search(r"IMproved (\d+)\.", said)
    if version is None or int(version[1]) < 9 or "+channel" not in said:
        pytest.skip("this vim is older than 9, or has no channels (apt-get install vim)")
    return found


@pytest.fixture(autouse=True)
def whole_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin wants what comes within a second; here that second does not pass."""
    monkeypatch.setattr("edgellm.server.answers.time", SimpleNamespace(monotonic=lambda: 1.0))


class Vim:
    """A Vim on a terminal. state: what it says of itself, several times a second."""

    def __init__(self, terminal: int, told: Path) -> None:
        self._terminal = terminal
        self._told = told

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def state(self) -> dict[str, Any]:
        while select.select([self._terminal], [], [], 0)[0]:  # else it waits for the terminal
            os.read(self._terminal, 1 << 16)
        try:
            return dict(json.loads(self._told.read_text("utf-8")))
        except (FileNotFoundError, ValueError):
            return {"lines": [], "shown": False, "screen": [], "at": [], "mode": "", "said": ""}

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while not holds(state := self.state()):
            assert time.monotonic() < deadline, state
            time.sleep(0.01)
        return state


@contextmanager
def editing(folder: Path, address: str, text: str) -> Iterator[Vim]:
    """A Vim in insert mode at the end of a text."""
    vim = needs_vim()
    file, told, rc = folder / "text.py", folder / "told", folder / "vimrc"
    file.write_text(text)
    rc.write_text(
        "vim9script\nset encoding=utf-8 autoindent expandtab\n"
        f"g:edgellm_address = '{address}'\nsource {PLUGIN}\n{WATCH}\n"
        f"timer_start(20, (_) => Tell('{told}'), {{repeat: -1}})\n"
    )
    parent, terminal = pty.openpty()
    command = [vim, "-N", "-u", str(rc), "-i", "NONE", "-n", "+normal G$", "+startinsert!"]
    process = subprocess.Popen(
        [*command, str(file)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"},
    )
    os.close(terminal)
    try:
        found = Vim(parent, told)
        found.until(lambda state: bool(state["mode"] == "i"))
        yield found
        assert "Error" not in found.state()["said"]
    finally:
        process.kill()
        process.wait()
        os.close(parent)


def large(model: MockModel) -> Manager:
    return make_manager(model, context_length=1024, num_blocks=1024, token_budget=256)


def address_of(server: Running, kind: str) -> str:
    return f"unix:{server.unix}" if kind == "unix" else server.tcp.removeprefix("http://")


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_a_suggestion_is_shown_and_taken(tmp_path: Path, kind: str) -> None:
    said = "    return ä + b\n\n    # done\nprint"
    with (
        running(large(MockModel(says(said))), tmp_path) as server,
        editing(tmp_path, address_of(server, kind), "def add(ä, b):\n    r\n") as vim,
    ):
        vim.type("e")
        screen = ["def add(ä, b):", "    return ä + b", "", "    # done"]
        vim.until(lambda state: state["shown"] and bool(state["screen"][:4] == screen))
        assert vim.state()["lines"] == ["def add(ä, b):", "    re"]
        vim.type("\t")
        state = vim.until(lambda state: bool(state["lines"] == screen))
        assert state["at"] == [4, len("    # done") + 1] and state["mode"] == "i"


def test_the_next_keystroke_aborts(tmp_path: Path) -> None:
    with (
        running(large(MockModel(says("abcdefgh" * 9), delay=0.3)), tmp_path) as server,
        editing(tmp_path, address_of(server, "unix"), "\n") as vim,
    ):
        vim.type("a")
        vim.until(lambda state: bool(state["shown"]))
        assert server.service.in_flight == 1
        vim.type("b")
        vim.until(lambda state: server.service.totals.aborted == 1)
        vim.until(lambda state: bool(state["lines"] == ["ab"] and state["shown"]))
        vim.type("\x1b")
        vim.until(lambda state: server.service.in_flight == 0 and not state["shown"])
        assert server.service.totals.aborted == 2 and server.service.totals.generated_tokens == 0
        assert vim.state()["lines"] == ["ab"]


@pytest.mark.parametrize("address", ["unix:/nowhere/edgellm.sock", "localhost:1"])
def test_without_a_server_nothing_is_said(tmp_path: Path, address: str) -> None:
    with editing(tmp_path, address, "a\n") as vim:
        vim.type("b")
        vim.until(lambda state: bool(state["lines"] == ["ab"]))
        time.sleep(0.3)  # the model is asked after 30 ms
        vim.type("\tc")
        vim.until(lambda state: bool(state["lines"] == ["ab      c"]))
