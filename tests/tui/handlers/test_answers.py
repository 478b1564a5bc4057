"""Actions on answers, on a screen with a scripted model."""

from pathlib import Path
from typing import Any, cast

import pytest
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from edgellm.tui.screens.alternatives import AlternativesScreen
from edgellm.tui.screens.compare import CompareScreen
from tests.tui.piloted import (
    app_of,
    asked,
    asynchronous,
    chatting,
    counting,
    finished,
    notices,
    say,
    shown,
    texts,
    until,
)
from tests.tui.scripted import END, ScriptedClient


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
@asynchronous
async def test_stop(key: str, tmp_path: Path) -> None:
    client = ScriptedClient(lambda prompt: "x" * 1000)
    client.delay = 0.005
    async with chatting(tmp_path, client) as pilot:
        await say(pilot, "hi", wait=False)
        app = app_of(pilot)
        await until(pilot, lambda: (g := app.session.generation(app.chat)) and len(g.text) > 5)
        await pilot.press(key)
        await finished(pilot)
        answer = shown(app)[-1]
        assert answer.finish_reason == "abort" and 5 < len(answer.content) < 1000
        assert client.running == 0


@asynchronous
async def test_ctrl_c_ends_no_chat(tmp_path: Path) -> None:
    async with chatting(tmp_path, counting()) as pilot:
        await pilot.press("ctrl+c")
        await until(pilot, lambda: "Ctrl+Q quits" in notices(pilot))
        await say(pilot, "hi")


@asynchronous
async def test_regenerate_and_branches(tmp_path: Path) -> None:
    async with chatting(tmp_path, counting()) as pilot:
        await say(pilot, "hi")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: texts(pilot) == ["hi", "answer 2"])
        await finished(pilot)
        await pilot.press("alt+left")
        await until(pilot, lambda: texts(pilot) == ["hi", "answer 1"])
        await pilot.press("alt+right")
        await until(pilot, lambda: texts(pilot) == ["hi", "answer 2"])
        assert "‹ 2/2 ›" in str(app_of(pilot).transcript.views[-1].query_one(Static).render())


@asynchronous
async def test_continue_goes_on_from_the_tokens(tmp_path: Path) -> None:
    client = ScriptedClient(lambda prompt: " and on" if prompt.endswith("begun") else "begun")
    async with chatting(tmp_path, client) as pilot:
        await say(pilot, "hi")
        await pilot.press("ctrl+g")
        await until(pilot, lambda: shown(app_of(pilot))[-1].content == "begun and on")
        assert END not in client.requests[-1].prompt
        assert len(app_of(pilot).chat.messages) == 2


@asynchronous
async def test_edit_makes_a_branch(tmp_path: Path) -> None:
    async with chatting(tmp_path, counting()) as pilot:
        await say(pilot, "one")
        await say(pilot, "two")
        await pilot.press("f4")
        await asked(pilot, "zwei")
        await until(pilot, lambda: texts(pilot) == ["one", "answer 1", "zwei", "answer 3"])
        await finished(pilot)
        await pilot.press("alt+left")
        await until(pilot, lambda: texts(pilot) == ["one", "answer 1", "two", "answer 2"])


@asynchronous
async def test_compare_settings_and_keep_one(tmp_path: Path) -> None:
    client = counting()
    async with chatting(tmp_path, client) as pilot:
        await say(pilot, "hi")
        await pilot.press("f7")
        await asked(pilot, "temperature=0")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))
        await finished(pilot)
        temperatures = [request.params.temperature for request in client.requests]
        assert temperatures == [0.8, 0.8, 0.0]
        await pilot.press("left")
        await until(pilot, lambda: texts(pilot) == ["hi", "answer 2"])
        assert len(app_of(pilot).chat.siblings(shown(app_of(pilot))[-1])) == 3


@asynchronous
async def test_a_comparison_that_is_closed_leaves_the_answer_that_was_there(tmp_path: Path) -> None:
    client = counting()
    async with chatting(tmp_path, client) as pilot:
        await say(pilot, "hi")
        app = app_of(pilot)
        head = app.chat.conversation.head
        client.gate.clear()
        await say(pilot, "/compare temperature=0")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen))
        await until(pilot, lambda: client.running == 2)
        await pilot.press("escape")
        await until(pilot, lambda: client.running == 0)
        await until(pilot, lambda: app.chat.conversation.head == head)
        assert texts(pilot) == ["hi", "answer 1"]
        await until(pilot, lambda: app.transcript.views[-1].place == (1, 3))


@asynchronous
async def test_compare_models(tmp_path: Path) -> None:
    client = counting()
    async with chatting(tmp_path, client) as pilot:
        await say(pilot, "hi")
        await say(pilot, "/compare large")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))
        await until(pilot, lambda: len(client.requests) == 3)
        assert [request.model for request in client.requests] == ["tiny", "tiny", "large"]
        await pilot.press("right")
        await until(pilot, lambda: shown(app_of(pilot))[-1].model == "large")
        assert app_of(pilot).chat.conversation.model == "tiny"


async def alternatives(pilot: Pilot[Any]) -> AlternativesScreen:
    """The screen of what else the last answer might have said."""
    await pilot.press("f8")
    await until(pilot, lambda: isinstance(pilot.app.screen, AlternativesScreen))
    return cast(AlternativesScreen, pilot.app.screen)


@asynchronous
async def test_alternatives(tmp_path: Path) -> None:
    client = ScriptedClient(lambda prompt: "yz" if prompt.endswith("X") else "abc")
    async with chatting(tmp_path, client) as pilot:
        await say(pilot, "hi")
        options = (await alternatives(pilot)).query_one(OptionList)
        await pilot.press("right")
        await until(pilot, lambda: options.option_count == 3)
        await until(pilot, lambda: "".join(map(chr, client.requests[-1].prompt)).endswith(">a"))
        assert "8.2%" in str(options.get_option_at_index(1).prompt)
        await pilot.press("down", "enter")
        await until(pilot, lambda: texts(pilot) == ["hi", "aXyz"])


@asynchronous
async def test_an_alternative_is_for_the_token_that_it_was_listed_for(tmp_path: Path) -> None:
    client = ScriptedClient(lambda prompt: "yz" if prompt.endswith("X") else "abc")
    async with chatting(tmp_path, client) as pilot:
        await say(pilot, "hi")
        screen = await alternatives(pilot)
        options = screen.query_one(OptionList)
        await until(pilot, lambda: options.option_count == 3)
        options.highlighted = 1
        screen.action_move(1)  # whose list is not there yet
        options.action_select()
        await until(pilot, lambda: texts(pilot) == ["hi", "Xyz"])


@asynchronous
async def test_delete_a_message(tmp_path: Path) -> None:
    async with chatting(tmp_path, counting()) as pilot:
        await say(pilot, "one")
        await say(pilot, "two")
        app = app_of(pilot)
        app.transcript.views[2].focus()
        await pilot.press("alt+d")
        await until(pilot, lambda: texts(pilot) == ["one", "answer 1"])


@asynchronous
async def test_the_token_that_is_looked_at_stays_in_sight(tmp_path: Path) -> None:
    client = ScriptedClient(lambda prompt: "word " * 400)
    async with chatting(tmp_path, client, size=(60, 20)) as pilot:
        await say(pilot, "hi")
        text = (await alternatives(pilot)).query_one(VerticalScroll)
        for key in "end", "home", "end":
            await pilot.press(key)
            wanted = text.max_scroll_y if key == "end" else 0
            await until(pilot, lambda y=wanted: text.scroll_y == y)
        assert text.max_scroll_y > 20
