"""How much of an answer is lost when the chat is killed (SIGKILL) while it is written.

    python benchmarks/chat_kill.py MODEL.gguf --times 8

The chat runs in tmux with a history of its own. What the screen shows right before the kill is held
against what the history has after it; letters lost are told as milliseconds of the answer, at the
rate that it grew with.
"""

import argparse
import random
import sys
import tempfile
import time
from os.path import commonprefix
from pathlib import Path

import psutil

from edgellm.tui.history import Store
from tests.tui.test_terminal import Terminal

PROMPT = "Write a very long story about the sea."
SETTINGS = ("ignore-eos=true", "temperature=1", "max-tokens=600")


def letters(text: str) -> str:
    """Without what wrapping and Markdown change."""
    return "".join(filter(str.isalnum, text))


def answer(screen: str) -> str:
    """The letters of the answer on the screen."""
    _, found, rest = screen.partition(PROMPT)
    _, _, below = rest.partition("tokens/s")
    return letters(below.partition("╭")[0]) if found else ""


def chat_process(terminal: Terminal) -> psutil.Process:
    shell = psutil.Process(int(terminal._tmux("list-panes", "-F", "#{pane_pid}")))
    return next(child for child in shell.children(recursive=True) if "chat" in child.cmdline())


def lost(model: Path) -> tuple[float, float]:
    """Milliseconds of text on the screen that are not in the history, and letters a second."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        terminal = Terminal(folder, [sys.executable, "-m", "edgellm", "chat", str(model)])
        try:
            terminal.wait(lambda screen: "of 8.2k" in screen)
            for setting in SETTINGS:
                terminal.press(f"/settings {setting}", "Enter")
            terminal.press(PROMPT, "Enter")
            terminal.wait(lambda screen: len(answer(screen)) > 50)
            process = chat_process(terminal)
            begun, before = time.monotonic(), answer(terminal.screen())
            time.sleep(random.uniform(1, 2))
            seen, end = answer(terminal.screen()), time.monotonic()
            process.kill()
        finally:
            terminal.close()
        with Store(folder / "edgellm" / "history.db") as store:
            chat = store.load(store.conversations()[0].id)
        kept = letters(chat.path()[-1].content) if chat else ""
        rate = (len(seen) - len(before)) / (end - begun)
        return 1000 * (len(seen) - len(commonprefix((seen, kept)))) / rate, rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--times", type=int, default=8)
    given = parser.parse_args()
    for _ in range(given.times):
        milliseconds, rate = lost(given.model)
        print(f"{milliseconds:.0f} ms lost, of {rate:.0f} letters a second", flush=True)


if __name__ == "__main__":
    main()
