"""Actions on what is shown, on a screen with a scripted model."""

from pathlib import Path

from textual.widgets import Input, OptionList, Static

from edgellm.tui.screens.engine import EngineScreen
from edgellm.tui.screens.help import HelpScreen
from edgellm.tui.screens.models import ModelScreen
from edgellm.tui.screens.raw_prompt import RawPromptScreen
from edgellm.tui.themes import THEMES
from edgellm.tui.widgets.status_bar import StatusBar
from tests.tui.piloted import app_of, asynchronous, chatting, counting, notices, say, until


@asynchronous
async def test_model_is_switched_in_a_conversation(tmp_path: Path) -> None:
    client = counting()
    async with chatting(tmp_path, client) as pilot:
        await say(pilot, "hi")
        await pilot.press("ctrl+l")
        await until(pilot, lambda: isinstance(pilot.app.screen, ModelScreen))
        await until(pilot, lambda: pilot.app.screen.query_one(OptionList).option_count == 2)
        await pilot.press(*"large", "enter")
        await until(pilot, lambda: app_of(pilot).session.known("large"))
        await until(pilot, lambda: not isinstance(pilot.app.screen, ModelScreen))
        await say(pilot, "more")
        assert client.requests[-1].model == "large"


@asynchronous
async def test_without_thoughts_there_is_nothing_to_unfold(tmp_path: Path) -> None:
    async with chatting(tmp_path) as pilot:
        await say(pilot, "hi")
        await pilot.press("alt+h")
        await until(pilot, lambda: "no thoughts here" in notices(pilot))


@asynchronous
async def test_settings(tmp_path: Path) -> None:
    client = counting()
    async with chatting(tmp_path, client) as pilot:
        await pilot.press("ctrl+t")
        field = pilot.app.query("#settings Input").first(Input)
        await until(pilot, lambda: field.has_focus)
        await pilot.press(*"0.5")
        pilot.app.query("#settings Input").nodes[1].value = "many"
        error = pilot.app.query_one("#setting-error", Static)
        await until(pilot, lambda: "a whole number" in str(error.render()))
        await pilot.press("ctrl+t")
        await say(pilot, "/settings top-k=7")
        await say(pilot, "hi")
        params = client.requests[0].params
        assert (params.temperature, params.top_k) == (0.5, 7)


@asynchronous
async def test_what_lies_over_a_small_chat_leaves_the_status_in_sight(tmp_path: Path) -> None:
    async with chatting(tmp_path, size=(60, 20)) as pilot:
        app = app_of(pilot)
        status = app.query_one(StatusBar)
        for key, panel in (("ctrl+t", app.settings_panel), ("ctrl+b", app.sidebar)):
            await pilot.press(key)
            await until(pilot, lambda panel=panel: panel.region.height)
            assert panel.region.bottom == status.region.y == 19


@asynchronous
async def test_think(tmp_path: Path) -> None:
    client = counting()
    async with chatting(tmp_path, client) as pilot:
        await pilot.press("alt+r")
        await until(pilot, lambda: "tiny has no switch for thinking" in notices(pilot))
        client.template = "{% if enable_thinking %}<think>{% endif %}"
        await pilot.press("alt+r")
        await until(pilot, lambda: "thinking: off" in notices(pilot))
        await say(pilot, "hi")
        assert client.variables is not None and client.variables["enable_thinking"] is False
        await say(pilot, "/think high")
        await until(pilot, lambda: "thinking: high" in notices(pilot))
        await pilot.press("f9")
        await until(pilot, lambda: isinstance(pilot.app.screen, RawPromptScreen))
        assert client.variables["reasoning_effort"] == "high"
        await pilot.press("escape", "alt+r")
        await until(pilot, lambda: "thinking: as the model does" in notices(pilot))
        await say(pilot, "hi")
        assert client.variables is None


@asynchronous
async def test_views(tmp_path: Path) -> None:
    async with chatting(tmp_path, counting()) as pilot:
        await say(pilot, "hi")
        views = (("f1", HelpScreen), ("f9", RawPromptScreen), ("alt+e", EngineScreen))
        for key, screen in views:
            await pilot.press(key)
            await until(pilot, lambda screen=screen: isinstance(pilot.app.screen, screen))
            await pilot.press("escape")
            await until(pilot, lambda screen=screen: not isinstance(pilot.app.screen, screen))
        await pilot.press("ctrl+b")
        await until(pilot, lambda: not pilot.app.query_one("#sidebar").display)
        await pilot.press("alt+t")
        await until(pilot, lambda: pilot.app.theme == THEMES[1].name)


@asynchronous
async def test_quit(tmp_path: Path) -> None:
    client = counting()
    async with chatting(tmp_path, client) as pilot:
        await pilot.press("ctrl+q")
        await until(pilot, lambda: not pilot.app.is_running)
    assert client.closed
