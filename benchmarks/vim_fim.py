"""How long a suggestion takes to appear in Vim after a keystroke: the whole way, screen to screen.

    python benchmarks/vim_fim.py qwen2.5-coder-0.5b.gguf --prefix 1000 --suffix 24

Starts `edgellm serve` and Vim 9 with the plugin of editors/vim, on a terminal of its own, in a file
with so many tokens before the cursor and at most so many after it. Types a function letter by
letter, waits after each for the suggestion, and reports the time until its first piece is drawn.
The 30 ms that the plugin waits for the next keystroke are part of it.
"""

import argparse
import asyncio
import json
import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from edgellm.client.http import Address, exchange, parse_address
from edgellm.errors import ConnectionFailed

PLUGIN = Path(__file__).parents[1] / "editors" / "vim" / "plugin" / "edgellm.vim"
LINES = "def area_{0}(width, height):\n    return width * height * {0}\n\n"
AFTER = "\n\nif __name__ == '__main__':\n    print(total([area_1(2, 3)]))\n"
TYPED = "def total(values):\n    result = 0\nfor value in values:\n    result += value\n"
COLOUR = 201  # of suggestions, and of nothing else
GHOST = f"38;5;{COLOUR}m".encode()
VIMRC = """vim9script
set encoding=utf-8 autoindent t_Co=256
g:edgellm_address = 'unix:{address}'
source {plugin}
highlight EdgellmGhost cterm=NONE ctermfg={colour}
"""
SETTLES, PATIENCE = 0.6, 3.0  # seconds after the last output, for a suggestion


async def ask(address: Address, target: str, fields: Any) -> Any:
    async with exchange(address, "POST", target, json.dumps(fields).encode()) as response:
        return json.loads(await response.body())


async def count(address: Address, text: str) -> int:
    return len((await ask(address, "/tokenize", {"content": text}))["tokens"])


async def wait_for_model(address: Address) -> None:
    while True:
        try:
            if "content" in await ask(address, "/infill", {"input_prefix": "a", "n_predict": 1}):
                return
        except ConnectionFailed:
            pass
        await asyncio.sleep(0.1)


async def texts(address: Address, prefix: int, suffix: int) -> tuple[str, str]:
    """What stands before the cursor and after it."""
    await wait_for_model(address)
    before = ""
    while await count(address, before) < prefix:
        before += LINES.format(before.count("\n") // 3 + 1)
    after = AFTER
    while await count(address, after) > suffix:
        after = after[:-1]
    return before, after


def output(terminal: int, seconds: float) -> bytes:
    """What Vim draws within so many seconds; empty when it draws nothing."""
    ready, _, _ = select.select([terminal], [], [], seconds)
    return os.read(terminal, 1 << 16) if ready else b""


def keystroke(terminal: int, key: str) -> float | None:
    """Seconds until a suggestion is drawn; None when there is none."""
    os.write(terminal, key.encode())
    begun, drawn, found = time.monotonic(), b"", None
    while piece := output(terminal, PATIENCE if found is None else SETTLES):
        drawn += piece
        if found is None and GHOST in drawn:
            found = time.monotonic() - begun
    return found


def type_all(terminal: int, text: str) -> list[float | None]:
    while output(terminal, 1.0):
        pass
    return [keystroke(terminal, "\r" if key == "\n" else key) for key in text]


def report(times: list[float | None]) -> None:
    shown = sorted(1000 * seconds for seconds in times if seconds is not None)
    print(f"{len(times)} keystrokes, {len(shown)} suggestions")
    print(
        f"first piece on the screen: median {statistics.median(shown):.0f} ms, "
        f"p90 {shown[int(0.9 * (len(shown) - 1))]:.0f} ms, most {shown[-1]:.0f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--prefix", type=int, default=1000, help="tokens before the cursor")
    parser.add_argument("--suffix", type=int, default=24, help="tokens after it, at most")
    parser.add_argument("--keys", type=int, default=len(TYPED), help="keystrokes")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        socket, file, rc = folder / "s.sock", folder / "area.py", folder / "vimrc"
        serve = [sys.executable, "-m", "edgellm", "serve", args.model, "--socket", str(socket)]
        server = subprocess.Popen(serve)
        try:
            before, after = asyncio.run(texts(parse_address(str(socket)), args.prefix, args.suffix))
            file.write_text(before + after)
            rc.write_text(VIMRC.format(address=socket, plugin=PLUGIN, colour=COLOUR))
            parent, terminal = pty.openpty()
            at = f"+{before.count(chr(10)) + 1}"
            vim = subprocess.Popen(
                ["vim", "-N", "-u", str(rc), "-i", "NONE", "-n", at, "+startinsert", str(file)],
                stdin=terminal,
                stdout=terminal,
                stderr=terminal,
                env={**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
            )
            try:
                # The first suggestion reads all of the prefix.
                report(type_all(parent, TYPED[: args.keys])[1:])
            finally:
                vim.kill()
                vim.wait()
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
