"""The chat in a test, and what drives it: opens it, types, waits, looks."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from edgellm.tui.app import ChatApp
from edgellm.tui.chat import Message as Said
from edgellm.tui.screens.ask import AskScreen
from tests.tui.scripted import ScriptedClient, ScriptedEngine, ScriptedLibrary

P = ParamSpec("P")

WAIT = 120.0  # seconds; machines that are busy with other things are slow


@asynccontextmanager
async def chatting(
    folder: Path,
    client: ScriptedClient | None = None,
    library: ScriptedLibrary | None = None,
    size: tuple[int, int] = (100, 24),
    engine: ScriptedEngine | None = None,
) -> Any:
    """The app on a screen of that size, its history in `folder`, its model loaded if it can be."""
    engine = engine or ScriptedEngine(client or ScriptedClient())
    app = ChatApp(engine, library or ScriptedLibrary(), folder / "history.db")
    async with app.run_test(size=size, notifications=True) as pilot:
        if engine.error is None and (library is None or library.stored):
            await until(pilot, lambda: app.session.known("tiny") is not None)
        yield pilot


async def until(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    """Lets the app work until the condition holds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + WAIT
    while not condition():
        assert loop.time() < end, "the screen never came to that"
        await asyncio.sleep(0.01)
    await pilot.pause()


async def say(pilot: Pilot[None], text: str, wait: bool = True) -> None:
    """Types a prompt and sends it; waits for the answer's end, or for its beginning."""
    app = pilot.app
    assert isinstance(app, ChatApp)
    app.editor.put(text)
    before = len(app.chat.messages)
    await pilot.press("enter")
    if text.startswith("/"):
        await pilot.pause()
        return
    await until(pilot, lambda: len(app.chat.messages) >= before + 2)
    if wait:
        await finished(pilot)


async def finished(pilot: Pilot[None]) -> None:
    """Waits until nothing is written any more, and the screen shows it."""
    app = pilot.app
    assert isinstance(app, ChatApp)
    await until(pilot, lambda: not app.session.busy())
    await until(pilot, lambda: not any(view.generation for view in app.transcript.views))


def asynchronous(
    test: Callable[P, Coroutine[Any, Any, None]],
) -> Callable[P, None]:
    """A test that is a coroutine."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def shown(app: ChatApp) -> list[Said]:
    """The messages that the screen shows."""
    return [view.message for view in app.transcript.views]


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
