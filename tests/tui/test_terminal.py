"""The chat in a real terminal with a real model, from the first key to the next start."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import edgellm

WAIT = 300.0  # seconds: kernels may have to be compiled first, on a busy machine
SIZE = ("-x", "110", "-y", "300")  # an answer does not scroll its heading out while we look


class Terminal:
    """A tmux server of our own with one window."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self._socket = folder / f"tmux-{time.monotonic_ns()}"
        # Its own history, but the kernels of everybody.
        others = ("EDGELLM_HOME", "TMUX", "NO_COLOR", "COLUMNS", "LINES")
        unset = ["env", *(word for name in others for word in ("-u", name))]
        here = [str(Path(edgellm.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        paths = [f"XDG_DATA_HOME={folder}", f"PYTHONPATH={os.pathsep.join(filter(None, here))}"]
        line = shlex.join([*unset, *paths, *command])
        self._tmux("new-session", "-d", *SIZE, f"{line}; echo left with $?; cat")

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-f", "/dev/null", "-S", str(self._socket), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def wait(self, condition: Callable[[str], object]) -> None:
        end = time.monotonic() + WAIT
        while not condition(screen := self.screen()):
            assert time.monotonic() < end, "\n".join(filter(str.strip, screen.splitlines()))
            time.sleep(0.1)

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def chat(smollm2: Path, tmp_path: Path) -> Iterator[Callable[[], Terminal]]:
    """Opens the chat in a terminal."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed: no terminal to run the chat in")
    opened: list[Terminal] = []

    def start() -> Terminal:
        while opened:
            opened.pop().close()
        command = [sys.executable, "-P", "-m", "edgellm", "chat", str(smollm2)]
        opened.append(Terminal(tmp_path, command))
        return opened[0]

    yield start
    while opened:
        opened.pop().close()


@pytest.mark.weights
def test_type_stream_stop_regenerate_quit_reopen(chat: Callable[[], Terminal]) -> None:
    terminal = chat()
    terminal.wait(lambda screen: "of 8.2k" in screen)
    # Long enough to be stopped, and short enough for the screen where nobody looks for a while.
    for setting in ("ignore-eos=true", "max-tokens=1000", "temperature=0"):
        terminal.press(f"/settings {setting}", "Enter")
    terminal.press("Write a very long story about the sea.", "Enter")
    terminal.wait(lambda screen: screen.count("tokens/s") == 2)
    terminal.press("Escape")
    terminal.wait(lambda screen: "Ctrl+G goes on" in screen)
    terminal.press("C-r")
    terminal.wait(lambda screen: "2/2" in screen and screen.count("tokens/s") == 2)
    terminal.press("Escape")
    terminal.wait(lambda screen: "Ctrl+G goes on" in screen)
    terminal.press("C-q")
    terminal.wait(lambda screen: "left with 0" in screen)

    terminal = chat()
    terminal.wait(lambda screen: "of 8.2k" in screen)
    terminal.press("/search the sea", "Enter")
    terminal.wait(lambda screen: "the sea" in screen and "Message" in screen)
    terminal.press("Enter")
    terminal.wait(lambda screen: "2/2" in screen and "Ctrl+G goes on" in screen)
    terminal.press("M-Left")
    terminal.wait(lambda screen: "1/2" in screen)
    terminal.press("C-q")
    terminal.wait(lambda screen: "left with 0" in screen)
