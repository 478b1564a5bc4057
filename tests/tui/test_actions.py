"""The table of actions: each has a key, a command, an entry in the palette and a line of help."""

from pathlib import Path
from typing import Any

import pytest
from textual.command import CommandList
from textual.widgets import Static

from edgellm.tui.actions import ACTIONS, BY_NAME
from edgellm.tui.palette import Actions
from edgellm.tui.screens.help import HelpScreen
from edgellm.tui.widgets.editor import Editor
from tests.tui.piloted import app_of, asynchronous, chatting, counting, notices, say, texts, until


def test_keys_and_names_are_single() -> None:
    keys = [action.key for action in ACTIONS]
    assert len({*keys}) == len(keys) == len({action.name for action in ACTIONS})


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
        await app.push_screen(HelpScreen(ACTIONS))
        help_lines = "\n".join(str(part.render()) for part in app.screen.query(Static))
        await app.pop_screen()
        for action in ACTIONS:
            (binding,) = app._bindings.get_bindings_for_key(action.key)
            await app.run_action(binding.action)
            app.post_message(Editor.Submitted(f"/{action.name} words of it"))
            await until(pilot, lambda: len(done) == 2)
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
async def test_the_palette_has_every_action(tmp_path: Path) -> None:
    async with chatting(tmp_path, counting()) as pilot:
        await say(pilot, "hi")
        await pilot.press("ctrl+p")
        await until(pilot, lambda: pilot.app.screen.query(CommandList))
        listed = pilot.app.screen.query_one(CommandList)
        await until(pilot, lambda: listed.option_count == len(ACTIONS))
        await pilot.press(*"regenerate")
        await until(pilot, lambda: listed.option_count == 1)
        await pilot.press("enter")
        await until(pilot, lambda: texts(pilot) == ["hi", "answer 2"])


@asynchronous
async def test_unknown_commands_and_errors_are_told(tmp_path: Path) -> None:
    async with chatting(tmp_path, counting()) as pilot:
        await say(pilot, "/nothing")
        await until(pilot, lambda: "no command /nothing" in notices(pilot))
        assert app_of(pilot).editor.text == "/nothing"  # it may have been meant as a message
        await say(pilot, "/copy")
        await until(pilot, lambda: "no answer to copy" in notices(pilot))
        await say(pilot, "/model broken")
        await until(pilot, lambda: "the file is broken" in notices(pilot))
