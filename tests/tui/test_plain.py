"""The prompt loop without a screen."""

import io
import os
import signal
from pathlib import Path

from edgellm.tui.history import Store
from edgellm.tui.plain import can_draw, converse
from tests.tui.piloted import asynchronous
from tests.tui.scripted import ScriptedClient, ScriptedEngine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_when_there_is_a_screen() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    assert can_draw("xterm", terminal, terminal)
    for term, stdin, stdout in (
        ("dumb", terminal, terminal),
        (None, terminal, terminal),
        ("xterm", pipe, terminal),
        ("xterm", terminal, pipe),
    ):
        assert not can_draw(term, stdin, stdout)
    with open(os.devnull, "w", encoding="latin-1") as latin:
        latin.isatty = lambda: True  # type: ignore[method-assign]
        assert not can_draw("xterm", terminal, latin)


@asynchronous
async def test_a_conversation(tmp_path: Path) -> None:
    client = ScriptedClient(lambda prompt: f"{prompt.count('<user>')}\x1b[2J")
    lines, written = io.StringIO("one\n\n@none\n/what\n/new\nthree\n/quit\nfour\n"), io.StringIO()
    await converse(ScriptedEngine(client), tmp_path / "h.db", "tiny", None, lines, written)
    answers = [line for line in written.getvalue().splitlines() if line[:1].isdigit()]
    assert answers == ["1\\x1b[2J", "2\\x1b[2J", "1\\x1b[2J"]
    assert client.closed and "(no command /what: /new begins" in written.getvalue()
    with Store(tmp_path / "h.db") as store:
        assert {c.title for c in store.conversations()} == {"one", "three"}


@asynchronous
async def test_an_error_of_our_own_ends_the_answer_alone(tmp_path: Path) -> None:
    client = ScriptedClient(lambda prompt: "ok" if "two" in prompt else str(1 / 0))
    lines, written = io.StringIO("one\ntwo\n"), io.StringIO()
    await converse(ScriptedEngine(client), tmp_path / "h.db", "tiny", None, lines, written)
    said = written.getvalue()
    assert "(ZeroDivisionError: division by zero" in said and said.endswith("ok\n")


@asynchronous
async def test_an_interrupt_stops_the_answer_alone(tmp_path: Path) -> None:
    class Endless(ScriptedClient):
        def _check(self) -> None:
            super()._check()
            if len(self.requests) == 1 and self.running:
                os.kill(os.getpid(), signal.SIGINT)

    client = Endless(lambda prompt: "x" * 100_000 if prompt.count("<user>") == 1 else "ok")
    client.delay = 0.001
    lines, written = io.StringIO("one\ntwo\n"), io.StringIO()
    await converse(ScriptedEngine(client), tmp_path / "h.db", "tiny", None, lines, written)
    assert written.getvalue().endswith("ok\n")
    with Store(tmp_path / "h.db") as store:
        (conversation,) = store.conversations()
        chat = store.load(conversation.id)
    assert chat and [m.finish_reason for m in chat.path()][1::2] == ["abort", "stop"]
