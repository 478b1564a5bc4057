"""What the screen looks like in six states, held against the pictures in `snapshots/`.

EDGELLM_UPDATE_SNAPSHOTS=1 writes them anew; look at them before they are committed. Colours and
positions are compared for the version of Textual that drew the pictures, with others the words.
"""

import html
import os
import re
import time
from pathlib import Path

import pytest
import textual
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from tests.tui.piloted import app_of, asynchronous, chatting, finished, say, until
from tests.tui.scripted import ScriptedClient, ScriptedLibrary

SNAPSHOTS = Path(__file__).with_name("snapshots")
STAMP = f"<!-- Textual {textual.__version__} -->\n"
PATIENCE = 60.0  # seconds
ANSWER = """\
Reverse a string with a *slice*:

```python
def reverse(text: str) -> str:
    return text[::-1]  # from the end
```

1. `[::-1]` steps backwards.
2. The result is a **new** string.

| input | output |
|---|---|
| abc | cba |
| 東京 | 京東 |
"""


def normal(svg: str) -> str:
    """Without the names that differ from picture to picture."""
    return re.sub(r"terminal-\d+", "terminal", svg)


def words(svg: str) -> list[str]:
    found = re.findall(r"<text[^>]*>(.*?)</text>", svg, re.DOTALL)
    return [text for raw in found if (text := html.unescape(raw).replace("\xa0", " ").strip())]


def picture(pilot: Pilot[None]) -> str:
    return normal(pilot.app.export_screenshot(title="edgellm"))


async def compare(pilot: Pilot[None], name: str, tmp_path: Path) -> None:
    path = SNAPSHOTS / f"{name}.svg"
    if os.environ.get("EDGELLM_UPDATE_SNAPSHOTS"):
        await pilot.pause(1)
        SNAPSHOTS.mkdir(exist_ok=True)
        path.write_text(STAMP + picture(pilot), "utf-8")
    kept = path.read_text("utf-8")
    drawn = picture(pilot)
    end = time.monotonic() + PATIENCE
    while drawn not in kept and time.monotonic() < end:
        await pilot.pause(0.1)  # something is still to be drawn
        drawn = picture(pilot)
    (tmp_path / f"{name}.svg").write_text(drawn, "utf-8")
    where = f"{name}: see {tmp_path / name}.svg; EDGELLM_UPDATE_SNAPSHOTS=1 accepts it"
    assert words(drawn) == words(kept), where
    if kept.startswith(STAMP):
        assert STAMP + drawn == kept, where


@asynchronous
async def test_a_wide_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    client = ScriptedClient(lambda prompt: ANSWER)
    async with chatting(tmp_path, client, size=(110, 30)) as pilot:
        app = app_of(pilot)
        app.editor.cursor_blink = False
        await say(pilot, "An older question")
        await pilot.press("ctrl+n", "alt+p")
        await say(pilot, "How do I reverse a string?")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(client.requests) == 3)
        await finished(pilot)
        await compare(pilot, "conversation", tmp_path)
        for field in app.query("#settings Input").results(Input):
            field.cursor_blink = False
        await pilot.press("ctrl+t")
        await compare(pilot, "settings", tmp_path)
        await pilot.press("ctrl+t", "f1")
        await compare(pilot, "help", tmp_path)
        await pilot.press("escape", "f8", "right")
        await until(pilot, lambda: app.screen.query(OptionList))
        await until(pilot, lambda: app.screen.query_one(OptionList).option_count == 3)
        await compare(pilot, "alternatives", tmp_path)


@asynchronous
async def test_a_small_light_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    client = ScriptedClient(lambda prompt: ANSWER)
    async with chatting(tmp_path, client, size=(60, 20)) as pilot:
        app = app_of(pilot)
        app.editor.cursor_blink = False
        app.theme = "edgellm-light"
        await say(pilot, "How do I reverse a string?")
        await pilot.press(*"/re")
        await until(pilot, lambda: app.completions.display)
        await compare(pilot, "small", tmp_path)


@asynchronous
async def test_the_first_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    async with chatting(tmp_path, library=ScriptedLibrary(stored=False), size=(90, 24)) as pilot:
        app = app_of(pilot)
        await until(pilot, lambda: app.screen.query(OptionList))
        await until(pilot, lambda: app.screen.query_one(OptionList).option_count == 2)
        app.screen.query_one(Input).cursor_blink = False
        await compare(pilot, "first", tmp_path)
