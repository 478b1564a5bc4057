"""How soon the chat echoes a key in a terminal while a real model writes four answers.

    python benchmarks/chat_terminal.py MODEL.gguf --seconds 20

`edgellm chat` runs in a pseudo-terminal with a history of its own. Letters are typed into its
prompt at random moments; each is timed, in milliseconds of the clock, until the screen is told to
show it. Other programs on the machine count, too, unless the chat and its engine are put ahead of
them: on Linux, as root, --ahead 15.
"""

import argparse
import fcntl
import os
import pty
import random
import re
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path

import psutil

CONVERSATIONS = 4
SIZE = (40, 120)  # rows, columns
PROMPT = "Write a long guide to Python in Markdown, with code blocks, lists and tables."
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LONGEST = 30  # letters typed before they are taken back
PATIENCE = 60.0  # seconds
LOADED = re.compile(rb"\d of [\d.]+k")  # tokens of the context


class Terminal:
    """The chat behind a pseudo-terminal. shown: what it has written since it was last cleared."""

    def __init__(self, model: str, home: str) -> None:
        env = {**os.environ, "XDG_DATA_HOME": home, "TERM": "xterm-256color"}
        for name in ("EDGELLM_HOME", "NO_COLOR", "COLUMNS", "LINES"):
            env.pop(name, None)
        self._process, self._stream = pty.fork()
        if self._process == 0:
            os.execvpe(sys.executable, [sys.executable, "-m", "edgellm", "chat", model], env)
        fcntl.ioctl(self._stream, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        self.shown = bytearray()

    def type(self, text: str) -> None:
        os.write(self._stream, text.encode())

    def put_ahead(self, steps: int) -> None:
        """Of all other programs, by so many steps of niceness. Between the chat and its engine,
        which have a session each (sched(7), autogroup), nothing changes."""
        for process in (chat := psutil.Process(self._process), *chat.children()):
            Path(f"/proc/{process.pid}/autogroup").write_text(str(process.nice() - steps))

    def read(self, seconds: float) -> None:
        """Takes what comes, for at most so long."""
        ready, _, _ = select.select([self._stream], [], [], seconds)
        if ready:
            self.shown += os.read(self._stream, 1 << 16)

    def rest(self, seconds: float) -> None:
        self.wait(lambda: False, seconds)

    def wait(self, condition: Callable[[], object], seconds: float = PATIENCE) -> float:
        """Reads until the condition holds or the time is over; the seconds that took."""
        begun = time.perf_counter()
        while not condition() and time.perf_counter() - begun < seconds:
            self.read(0.01)
        return time.perf_counter() - begun

    def close(self) -> None:
        os.kill(self._process, signal.SIGTERM)
        os.waitpid(self._process, 0)


def measure(terminal: Terminal, seconds: float, ahead: int) -> list[float]:
    """Milliseconds of each key."""
    terminal.wait(lambda: LOADED.search(terminal.shown))
    if ahead:
        terminal.put_ahead(ahead)
    terminal.rest(1)
    terminal.type("/settings temperature=0\r")
    for number in range(CONVERSATIONS):
        terminal.rest(0.5)
        terminal.type("\x0e" if number else "")
        terminal.rest(0.5)
        terminal.type(PROMPT)
        terminal.rest(0.3)
        terminal.type("\r")
    terminal.wait(lambda: b"tokens/s" in terminal.shown)
    found: list[float] = []
    typed = ""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        terminal.rest(random.uniform(0.05, 0.35))
        if len(typed) == LONGEST:
            terminal.type("\x7f" * LONGEST)
            terminal.rest(0.5)
            typed = ""
        typed += random.choice(LETTERS)
        terminal.shown.clear()
        terminal.type(typed[-1])
        wanted = typed.encode()
        found.append(1000 * terminal.wait(lambda wanted=wanted: wanted in terminal.shown))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--ahead", type=int, default=0, metavar="STEPS")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        terminal = Terminal(given.model, home)
        try:
            found = sorted(measure(terminal, given.seconds, given.ahead))
        finally:
            terminal.close()
    late = sum(taken > 50 for taken in found)
    print(f"{len(found)} keys: median {statistics.median(found):.0f} ms", end=", ")
    print(f"95 % within {found[len(found) * 95 // 100]:.0f}, worst {found[-1]:.0f}", end=", ")
    print(f"{late} after more than 50")


if __name__ == "__main__":
    main()
