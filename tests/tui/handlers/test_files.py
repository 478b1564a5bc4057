"""Actions on files and the clipboard, on a screen with a scripted model."""

import base64
import json
from pathlib import Path

import pytest
from textual.widgets import Static

from edgellm.tui.handlers.files import code_blocks
from edgellm.tui.history import Store
from tests.tui.piloted import (
    app_of,
    asked,
    asynchronous,
    chatting,
    counting,
    notices,
    say,
    shown,
    texts,
    until,
)
from tests.tui.scripted import ScriptedClient


@asynchronous
async def test_copies_reach_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    async with chatting(tmp_path, ScriptedClient(lambda prompt: "Käse 東")) as pilot:
        await say(pilot, "hi")
        assert pilot.app._driver is not None
        monkeypatch.setattr(pilot.app._driver, "write", written.append)
        await say(pilot, "/copy")
        wanted = base64.b64encode("Käse 東".encode()).decode()
        await until(pilot, lambda: f"\x1b]52;c;{wanted}\a" in written)


@asynchronous
async def test_attach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("the notes")
    client = counting()
    async with chatting(tmp_path, client) as pilot:
        await pilot.press("ctrl+o")
        await asked(pilot, "notes.txt")
        app = app_of(pilot)
        bar = app.query_one("#attachments", Static)
        await until(pilot, lambda: "9 tokens" in str(bar.render()))
        await say(pilot, "read " + app.editor.text)
        assert "the notes" in "".join(map(chr, client.requests[0].prompt))
        said = app.transcript.views[0].query_one(".said", Static)
        assert str(said.render()) == "read @notes.txt"


@asynchronous
async def test_save_and_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with chatting(tmp_path, counting()) as pilot:
        await say(pilot, "hi")
        await pilot.press("ctrl+s")
        await asked(pilot, "chat.md")
        await until(pilot, lambda: (tmp_path / "chat.md").exists())
        assert (tmp_path / "chat.md").read_text() == "# hi\n\n## You\n\nhi\n\n## tiny\n\nanswer 1\n"
        await say(pilot, "/save a[b]c.json")
        await until(pilot, lambda: "saved as a[b]c.json" in notices(pilot))
        before = app_of(pilot).chat.id
        await pilot.press("alt+i")
        await asked(pilot, "a[b]c.json")
        await until(pilot, lambda: app_of(pilot).chat.id != before)
        assert texts(pilot) == ["hi", "answer 1"]
        await until(pilot, lambda: "1 chat from a[b]c.json" in notices(pilot))
        await say(pilot, "/save chat.md")
        await until(pilot, lambda: "is there already" in notices(pilot))


@asynchronous
async def test_copy(tmp_path: Path) -> None:
    client = ScriptedClient(lambda prompt: "so:\n\n```py\nx = 1\n```\n")
    async with chatting(tmp_path, client) as pilot:
        await say(pilot, "hi")
        await pilot.press("alt+c")
        await until(pilot, lambda: pilot.app.clipboard == client.answer(""))
        await pilot.press("alt+k")
        await until(pilot, lambda: pilot.app.clipboard == "x = 1\n")


@asynchronous
async def test_right_to_left_text_is_kept_and_copied_as_it_is(tmp_path: Path) -> None:
    text = "שלום \u200fעולם (1) 👩‍👩‍👧 \u2067السلام عليكم\u2069 e\u0301"
    async with chatting(tmp_path, ScriptedClient(lambda prompt: text)) as pilot:
        await say(pilot, text)
        await pilot.press("alt+c")
        await until(pilot, lambda: pilot.app.clipboard == text)
        app = app_of(pilot)
        stored = await app.history.ask(Store.load, app.chat.id)
        assert stored is not None
        assert [message.content for message in stored.path()] == [text, text]


@asynchronous
async def test_choose_a_code_block(tmp_path: Path) -> None:
    client = ScriptedClient(lambda prompt: "".join(f"```\n{n}\n```\n\nthen\n\n" for n in "abc"))
    async with chatting(tmp_path, client) as pilot:
        await say(pilot, "hi")
        for key, code in (("up", "c"), ("up", "b"), ("down", "c"), ("down", "a")):
            await pilot.press(f"alt+{key}", "alt+k")
            await until(pilot, lambda code=code: pilot.app.clipboard == f"{code}\n")
        assert app_of(pilot).selected == shown(app_of(pilot))[-1]


def test_code_blocks_of_both_fences() -> None:
    text = "````md\n```\nin\n```\n````\ntext\n~~~\nb\n~~~\n"
    assert code_blocks(text) == ["```\nin\n```\n", "b\n"]


@asynchronous
async def test_schema(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"type": "object"}))
    client = counting()
    async with chatting(tmp_path, client) as pilot:
        await say(pilot, f"/schema {tmp_path / 's.json'}")
        await until(pilot, lambda: notices(pilot))
        await say(pilot, "hi")
        assert client.requests[0].params.json_schema == '{"type": "object"}'
