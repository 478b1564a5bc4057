"""What is offered while a command or a path is typed, however fast the keys come."""

from pathlib import Path

import pytest
from textual.events import Key
from textual.keys import _character_to_key
from textual.widgets import Input

from edgellm.tui.app import ChatApp
from tests.tui.piloted import app_of, asynchronous, chatting, until


def type_at_once(app: ChatApp, text: str, *keys: str) -> None:
    """The editor gets the letters and the keys before it hears that its text has changed."""
    for character in text:
        app.editor.post_message(Key(_character_to_key(character), character))
    for key in keys:
        app.editor.post_message(Key(key, None))


@asynchronous
async def test_a_command_typed_at_once_is_not_what_was_offered_before(tmp_path: Path) -> None:
    async with chatting(tmp_path) as pilot:
        app = app_of(pilot)
        await pilot.press(*"/s")
        await until(pilot, lambda: app.completions.display)
        type_at_once(app, "earch the sea", "enter")
        search = app.query_one("#search", Input)
        await until(pilot, lambda: search.value == "the sea" and search.has_focus)
        assert app.editor.text == ""


@asynchronous
@pytest.mark.parametrize("key", ["tab", "up", "down", "enter"])
async def test_no_key_uses_a_list_of_a_text_that_has_changed(tmp_path: Path, key: str) -> None:
    async with chatting(tmp_path) as pilot:
        app = app_of(pilot)
        await pilot.press(*"/s")
        await until(pilot, lambda: app.completions.display)
        type_at_once(app, "earch ", key)
        await pilot.pause()
        assert not app.completions.display
        assert app.editor.text == ("" if key == "enter" else "/search ")


@asynchronous
async def test_the_list_is_for_the_text_before_the_cursor(tmp_path: Path) -> None:
    async with chatting(tmp_path) as pilot:
        app = app_of(pilot)
        await pilot.press(*"/search x")
        await until(pilot, lambda: app.editor.text == "/search x")
        assert not app.completions.display
        await pilot.press(*["left"] * 7)
        await until(pilot, lambda: app.completions.display)
        assert app.completions.word == "/s"
        await pilot.press("tab")
        await until(pilot, lambda: app.editor.text == "/stop earch x")


@asynchronous
async def test_a_command_with_a_longer_sister_is_sent_as_it_is(tmp_path: Path) -> None:
    async with chatting(tmp_path) as pilot:
        app = app_of(pilot)
        await pilot.press(*"/archive")
        await until(pilot, lambda: app.completions.display)
        await pilot.press("enter")
        await until(pilot, lambda: app.chat.conversation.archived)


@asynchronous
async def test_walking_through_what_was_said_offers_nothing(tmp_path: Path) -> None:
    async with chatting(tmp_path) as pilot:
        app = app_of(pilot)
        app.editor.said = ["first", "/se"]
        await pilot.press("up")
        await until(pilot, lambda: app.editor.text == "/se")
        assert not app.completions.display
        await pilot.press("up")
        await until(pilot, lambda: app.editor.text == "first")


@asynchronous
async def test_completion_of_commands_and_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("x")
    monkeypatch.chdir(tmp_path)
    async with chatting(tmp_path) as pilot:
        app = app_of(pilot)
        await pilot.press(*"/ren")
        await until(pilot, lambda: app.completions.display)
        await pilot.press("tab")
        await until(pilot, lambda: app.editor.text == "/rename ")
        app.editor.put("")
        await pilot.press(*"see @no")
        await until(pilot, lambda: app.completions.display)
        await pilot.press("tab", *"a", "tab")
        await until(pilot, lambda: app.editor.text == "see @notes/a.txt ")
        await pilot.press("ctrl+j", *"more")
        await until(pilot, lambda: app.editor.text == "see @notes/a.txt \nmore")
