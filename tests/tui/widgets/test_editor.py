"""The prompt: one step of the cursor is one character as people see it; what may be pasted."""

import itertools
from pathlib import Path

from textual.events import Paste

from tests.tui.piloted import app_of, asynchronous, chatting, notices, until


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
async def test_a_paste_that_would_make_keys_slow_is_refused(tmp_path: Path) -> None:
    async with chatting(tmp_path) as pilot:
        app = app_of(pilot)
        app.post_message(Paste("short "))
        await until(pilot, lambda: app.editor.text == "short ")
        app.post_message(Paste("x" * 1_000_000))
        await until(pilot, lambda: "1,000,000 characters are more than" in notices(pilot))
        assert app.editor.text == "short "


@asynchronous
async def test_what_cannot_be_sent_comes_back_before_what_was_typed_since(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\xff\xfe")
    async with chatting(tmp_path) as pilot:
        editor = app_of(pilot).editor
        editor.put(f"see @{tmp_path}/picture.png")
        sent = editor.text
        editor.action_submit()
        editor.put("and more")
        await until(pilot, lambda: editor.text == f"{sent}\nand more")
