"""Actions on conversations, on a screen with a scripted model."""

from pathlib import Path

from textual.widgets import Input, OptionList

from edgellm.tui.screens.ask import ConfirmScreen
from tests.tui.piloted import (
    app_of,
    asked,
    asynchronous,
    chatting,
    counting,
    say,
    texts,
    until,
)


@asynchronous
async def test_new_and_search(tmp_path: Path) -> None:
    async with chatting(tmp_path, counting()) as pilot:
        await say(pilot, "about trains")
        await pilot.press("ctrl+n")
        await until(pilot, lambda: not texts(pilot))
        await say(pilot, "about birds")
        listed = pilot.app.query_one("#conversations", OptionList)
        await until(pilot, lambda: listed.option_count == 3)
        await say(pilot, "/search answer 1")
        await until(pilot, lambda: listed.option_count == 2)
        assert "trains" in str(listed.get_option_at_index(1).prompt)
        await pilot.press("enter")
        await until(pilot, lambda: texts(pilot) == ["about trains", "answer 1"])
        pilot.app.query_one("#search", Input).value = ""
        await until(pilot, lambda: listed.option_count == 3)
        await pilot.press("f3")
        await until(pilot, lambda: pilot.app.query_one("#search").has_focus)
        await pilot.press("down", "enter")
        await until(pilot, lambda: texts(pilot) == ["about birds", "answer 2"])


@asynchronous
async def test_fork(tmp_path: Path) -> None:
    async with chatting(tmp_path, counting()) as pilot:
        await say(pilot, "one")
        await say(pilot, "two")
        app = app_of(pilot)
        before = app.chat.id
        app.transcript.views[1].focus()
        await pilot.press("f5")
        await until(pilot, lambda: app.chat.id != before and texts(pilot) == ["one", "answer 1"])
        assert app.chat.conversation.title == "one (fork)"


@asynchronous
async def test_rename_pin_archive(tmp_path: Path) -> None:
    async with chatting(tmp_path, counting()) as pilot:
        await say(pilot, "hi")
        listed = pilot.app.query_one("#conversations", OptionList)
        await pilot.press("f2")
        await asked(pilot, "A title")
        await until(pilot, lambda: "A title" in str(listed.get_option_at_index(1).prompt))
        await pilot.press("alt+p")
        await until(pilot, lambda: str(listed.get_option_at_index(0).prompt) == "Pinned")
        await pilot.press("alt+a")
        await until(pilot, lambda: listed.option_count == 0)
        await say(pilot, "/search nothing of this kind")
        await pilot.press("alt+z")
        await until(pilot, lambda: listed.option_count == 2)


@asynchronous
async def test_remove_asks_first(tmp_path: Path) -> None:
    async with chatting(tmp_path, counting()) as pilot:
        await say(pilot, "hi")
        listed = pilot.app.query_one("#conversations", OptionList)
        for key, left in (("escape", 2), ("enter", 0)):
            await pilot.press("alt+x")
            await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen))
            await pilot.press(key)
            await until(pilot, lambda left=left: listed.option_count == left)


@asynchronous
async def test_instructions_reach_the_model(tmp_path: Path) -> None:
    client = counting()
    async with chatting(tmp_path, client) as pilot:
        await pilot.press("f6")
        await asked(pilot, "Be brief.")
        await say(pilot, "hi")
        prompt = "".join(map(chr, client.requests[0].prompt))
        assert prompt == "<system>Be brief.<user>hi<assistant>"
