"""The prompt: one step of the cursor is one character as people see it."""

import itertools
from pathlib import Path

from tests.tui.piloted import app_of, asynchronous, chatting


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
