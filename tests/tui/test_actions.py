"""Each action from its key, its command or the palette, on a screen with a scripted model."""

import base64
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static, TextArea

from edgellm.tui.actions import ACTIONS, BY_NAME
from edgellm.tui.app import ChatApp
from edgellm.tui.handlers.files import code_blocks
from edgellm.tui.history import Store
from edgellm.tui.palette import Actions
from edgellm.tui.screens.alternatives import AlternativesScreen
from edgellm.tui.screens.ask import AskScreen, ConfirmScreen
from edgellm.tui.screens.compare import CompareScreen
from edgellm.tui.screens.engine import EngineScreen
from edgellm.tui.screens.help import HelpScreen
from edgellm.tui.screens.models import ModelScreen
from edgellm.tui.screens.raw_prompt import RawPromptScreen
from edgellm.tui.themes import THEMES
from edgellm.tui.widgets.editor import Editor
from tests.tui.scripted import (
    END,
    ScriptedClient,
    asynchronous,
    chatting,
    finished,
    say,
    shown,
    until,
)


def counting() -> ScriptedClient:
    """Every answer says which one it is."""
    answers = iter(range(1, 100))
    return ScriptedClient(lambda prompt: f"answer {next(answers)}")


def texts(pilot: Pilot[None]) -> list[str]:
    return [message.content for message in shown(app_of(pilot))]


def app_of(pilot: Pilot[None]) -> ChatApp:
    assert isinstance(pilot.app, ChatApp)
    return pilot.app


async def asked(pilot: Pilot[None], text: str) -> None:
    """Answers the question that is on the screen."""
    await until(pilot, lambda: isinstance(pilot.app.screen, AskScreen))
    screen = pilot.app.screen
    if screen.query(TextArea):
        screen.query_one(TextArea).text = text
        await pilot.press("ctrl+s")
    else:
        screen.query_one(Input).value = text
        await pilot.press("enter")
    await until(pilot, lambda: pilot.app.screen is not screen)


def notices(pilot: Pilot[None]) -> str:
    return "\n".join(str(notice.message) for notice in pilot.app._notifications)


def test_keys_and_names_are_single() -> None:
    keys = [action.key for action in ACTIONS]
    assert len({*keys}) == len(keys) == len(BY_NAME)


def test_what_a_chat_must_be_able_to_do() -> None:
    assert set(BY_NAME) >= {
        *("stop", "regenerate", "edit", "previous", "next", "continue", "fork", "delete"),
        *("system", "model", "attach", "save", "import", "copy", "compare", "alternatives"),
        *("raw", "schema", "engine", "search", "pin", "rename", "archive", "help", "theme"),
    }


@asynchronous
async def test_each_action_has_a_key_a_command_a_palette_entry_and_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str]] = []
    async with chatting(tmp_path, counting()) as pilot:
        app = app_of(pilot)
        monkeypatch.setattr(app, "do", lambda action, text="": done.append((action.name, text)))
        palette = Actions(app.screen)
        offered = {hit.help: hit async for hit in palette.discover()}
        app.push_screen(HelpScreen(ACTIONS))
        await pilot.pause()
        help_lines = "\n".join(str(part.render()) for part in app.screen.query(Static))
        app.pop_screen()
        await pilot.pause()
        for action in ACTIONS:
            (binding,) = app._bindings.get_bindings_for_key(action.key)
            await app.run_action(binding.action)
            app.post_message(Editor.Submitted(f"/{action.name} words of it"))
            await pilot.pause()
            command: Any = offered[f"/{action.name}"].command
            command()
            assert done == [(action.name, ""), (action.name, "words of it"), (action.name, "")]
            done.clear()
            app.completions.offer(f"/{action.name}"[:-1], at_start=True)
            assert f"/{action.name}" in [option.id for option in app.completions.options]
            (line,) = (
                line
                for line in help_lines.splitlines()
                if line.startswith(f"{action.shown_key} ") and f" /{action.name} " in line
            )
            assert action.title in line and action.argument in line


@asynchronous
async def test_the_cursor_steps_over_what_is_seen_as_one_character(tmp_path: Path) -> None:
    characters = ["a", "東", "👩\u200d👩\u200d👧", "e\u0301", "ש\u05b8", "👍🏽", "z"]
    async with chatting(tmp_path) as pilot:
        editor = app_of(pilot).editor
        editor.put("".join(characters))
        ends = [0, *itertools.accumulate(map(len, characters))]
        for end in reversed(ends):
            assert editor.cursor_location == (0, end)
            editor.action_cursor_left()
        for end in ends:
            assert editor.cursor_location == (0, end)
            editor.action_cursor_right()
        assert editor.wrapped_document.height == 1
        editor.action_cursor_left()
        editor.action_delete_left()
        editor.action_delete_left()
        editor.action_delete_right()
        assert editor.text == "".join(characters[:-3])
        editor.put("東京タワー" * 40)
        width = editor.wrap_width
        assert editor.wrapped_document.height == -(-400 // (width - width % 2))


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
async def test_stop(tmp_path: Path) -> None:
    client = ScriptedClient(lambda prompt: "x" * 1000)
    client.delay = 0.005
    async with chatting(tmp_path, client) as pilot:
        await say(pilot, "hi", wait=False)
        app = app_of(pilot)
        await until(pilot, lambda: (g := app.session.generation(app.chat)) and len(g.text) > 5)
        await pilot.press("escape")
        await finished(pilot)
        answer = shown(app)[-1]
        assert answer.finish_reason == "abort" and 5 < len(answer.content) < 1000
        assert client.running == 0


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


@asynchronous
async def test_alternatives(tmp_path: Path) -> None:
    client = ScriptedClient(lambda prompt: "yz" if prompt.endswith("X") else "abc")
    async with chatting(tmp_path, client) as pilot:
        await say(pilot, "hi")
        await pilot.press("f8")
        await until(pilot, lambda: isinstance(pilot.app.screen, AlternativesScreen))
        await pilot.press("right")
        options = pilot.app.screen.query_one(OptionList)
        await until(pilot, lambda: options.option_count == 3)
        await until(pilot, lambda: "".join(map(chr, client.requests[-1].prompt)).endswith(">a"))
        assert "8.2%" in str(options.get_option_at_index(1).prompt)
        await pilot.press("down", "enter")
        await until(pilot, lambda: texts(pilot) == ["hi", "aXyz"])


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
        await say(pilot, "/save chat.json")
        await until(pilot, lambda: (tmp_path / "chat.json").exists())
        before = app_of(pilot).chat.id
        await pilot.press("alt+i")
        await asked(pilot, "chat.json")
        await until(pilot, lambda: app_of(pilot).chat.id != before)
        assert texts(pilot) == ["hi", "answer 1"]
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
async def test_the_palette_has_every_action(tmp_path: Path) -> None:
    async with chatting(tmp_path, counting()) as pilot:
        await say(pilot, "hi")
        await pilot.press("ctrl+p")
        await pilot.pause()
        listed = pilot.app.screen.query_one(OptionList)
        await until(pilot, lambda: listed.option_count == len(ACTIONS))
        await pilot.press(*"regenerate")
        await until(pilot, lambda: listed.option_count == 1)
        await pilot.press("enter")
        await until(pilot, lambda: texts(pilot) == ["hi", "answer 2"])


@asynchronous
async def test_quit(tmp_path: Path) -> None:
    client = counting()
    async with chatting(tmp_path, client) as pilot:
        await pilot.press("ctrl+q")
        await until(pilot, lambda: not pilot.app.is_running)
    assert client.closed


@asynchronous
async def test_unknown_commands_and_errors_are_told(tmp_path: Path) -> None:
    async with chatting(tmp_path, counting()) as pilot:
        await say(pilot, "/nothing")
        await until(pilot, lambda: "no command /nothing" in notices(pilot))
        await say(pilot, "/copy")
        await until(pilot, lambda: "no answer to copy" in notices(pilot))
        await say(pilot, "/model broken")
        await until(pilot, lambda: "the file is broken" in notices(pilot))
