"""What is typed reaches the terminal without waiting for a frame."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from textual._compositor import ChopsUpdate  # its documentation leaves it out
from textual.events import Key
from textual.screen import Screen
from textual.widgets import Static

from edgellm.tui.app import ChatApp
from tests.tui.piloted import WAIT, app_of, asynchronous, chatting, until


@pytest.fixture
def painted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the terminal would have got, one text per update."""
    found: list[str] = []

    def display(app: ChatApp, screen: Any, update: Any) -> None:
        if isinstance(update, ChopsUpdate) and not app._batch_count:
            found.append(update.render_segments(app.console))

    monkeypatch.setattr(ChatApp, "_display", display)
    return found


class Frames:
    """They are drawn unless they are held."""

    def __init__(self) -> None:
        self.are_held = False


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> Frames:
    found, draw = Frames(), Screen._on_timer_update
    monkeypatch.setattr(Screen, "_on_timer_update", lambda self: found.are_held or draw(self))
    return found


@asynchronous
async def test_a_letter_is_painted_between_two_frames(
    tmp_path: Path, painted: list[str], frames: Frames
) -> None:
    async with chatting(tmp_path) as pilot:
        app = app_of(pilot)
        frames.are_held = True
        painted.clear()
        app.query_one(".none", Static).update("another", layout=False)
        app.post_message(Key("Q", "Q"))  # a pilot's keys would wait for a frame
        async with asyncio.timeout(WAIT):
            while not any("Q" in text for text in painted):
                await asyncio.sleep(0.01)
        assert not any("another" in text for text in painted)
        frames.are_held = False
        await until(pilot, lambda: any("another" in text for text in painted))


@asynchronous
async def test_a_letter_typed_while_nothing_may_be_painted(
    tmp_path: Path, painted: list[str]
) -> None:
    async with chatting(tmp_path) as pilot:
        with app_of(pilot).batch_update():
            painted.clear()
            app_of(pilot).post_message(Key("Q", "Q"))
            async with asyncio.timeout(WAIT):
                while not app_of(pilot).editor.text:
                    await asyncio.sleep(0.01)
            assert not painted
        await until(pilot, lambda: any("Q" in text for text in painted))
