"""Chats and engines as processes that are killed: what was said is kept, and the chat goes on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from edgellm.client import ChildClient, Client
from edgellm.tui import generation
from edgellm.tui.app import ChatApp
from edgellm.tui.history import Store
from edgellm.types import LoadOptions, ModelInfo
from tests.tui.piloted import asynchronous, finished, say, shown, until
from tests.tui.scripted import ScriptedLibrary

ROOT = Path(__file__).parents[2]
SCRIPTED = (sys.executable, "-m", "tests.client.scripted_engine")
ANSWER = "x" * 60  # of the scripted engine
WAIT = 120.0  # seconds; a busy machine may hold a process up


@pytest.fixture(autouse=True)
def from_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def chat_process(folder: Path, word: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.tui.chat_process", str(folder), word]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def stored(path: Path) -> dict[str, str]:
    """What is kept of the answer of each chat, by its title."""
    with Store(path) as store:
        assert store.moved_aside is None
        chats = {c.title: store.load(c.id) for c in store.conversations()}
    heads = {title: chat.head for title, chat in chats.items() if chat is not None}
    return {title: head.content for title, head in heads.items() if head and head.role != "user"}


def test_two_chats_killed_in_mid_answer_keep_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    chats = {word: chat_process(tmp_path, word) for word in ("one", "two")}
    end = time.monotonic() + WAIT
    try:
        for word, chat in chats.items():
            assert chat.stdout is not None
            chat.stdout.readline()  # its answer has begun
            while len((before := stored(path)).get(word, "")) < 200:
                assert time.monotonic() < end and chat.poll() is None
                time.sleep(0.05)
            chat.send_signal(signal.SIGKILL)
            chat.wait()
            assert stored(path)[word].startswith(before[word])
    finally:
        for chat in chats.values():
            chat.kill()
            chat.wait()
            assert chat.stdout is not None
            chat.stdout.close()
    assert {word: text.split()[0] for word, text in stored(path).items()} == {
        "one": "one",
        "two": "two",
    }
    with Store(path) as store:
        for conversation in store.conversations():
            loaded = store.load(conversation.id)
            assert loaded is not None and loaded.head is not None
            assert loaded.head.finish_reason is None  # shown as interrupted


def test_text_is_written_four_times_a_second() -> None:
    assert generation.SAVE_EVERY <= 0.25


class LoadedChild(ChildClient):
    """The scripted engine has its model already."""

    async def load(
        self, name_or_path: str, options: LoadOptions | None = None, report: Any = None
    ) -> ModelInfo:
        (info,) = await self.models()
        return info


class ScriptedChild:
    """Starts the scripted engine in a child process, as `edgellm chat` does with the real one."""

    def __init__(self) -> None:
        self.child: ChildClient | None = None

    async def start(self) -> Client:
        if self.child is not None:
            await self.child.close()
        self.child = await LoadedChild.start(SCRIPTED)
        return self.child

    def memory(self) -> int | None:
        return None


@asynchronous
async def test_an_engine_killed_in_mid_answer_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPTED_DELAY", "0.2")  # its context has room for 45 tokens
    engine = ScriptedChild()
    app = ChatApp(engine, ScriptedLibrary(), tmp_path / "history.db")
    async with app.run_test(notifications=True) as pilot:
        await until(pilot, lambda: app.session.known("tiny"))
        await say(pilot, "hi", wait=False)
        await until(pilot, lambda: (g := app.session.generation(app.chat)) and len(g.text) > 3)
        assert engine.child is not None and engine.child.pid is not None
        os.kill(engine.child.pid, signal.SIGKILL)
        await finished(pilot)
        cut = shown(app)[-1]
        assert cut.finish_reason == "error" and 0 < len(cut.content) < len(ANSWER)
        assert "SIGKILL" in str(app.transcript.views[-1].query_one(".ending").render())
        await pilot.press("ctrl+r")
        more = len(cut.content) + 1
        await until(pilot, lambda: (g := app.session.generation(app.chat)) and len(g.text) > more)
        await pilot.press("escape")
        await finished(pilot)
        assert shown(app)[-1].finish_reason == "abort"
