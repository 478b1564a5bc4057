"""Makes the README's picture: a short conversation with a real model, as the screen shows it.

    python docs/picture.py smollm2

A few questions are asked for the list of chats; the last answer is what the picture shows.
"""

import argparse
import asyncio
import tempfile
from pathlib import Path

from textual.pilot import Pilot

from edgellm.cli.chat import ChildEngine, Models
from edgellm.tui.app import ChatApp

QUESTIONS = (
    "Suggest a name for a sailing boat",
    "What is a heat pump?",
    "Translate “good morning” into French",
    "Show me a Python function that reverses a string, and explain it in two short points.",
)
SIZE = (112, 32)
SETTINGS = {"temperature": 0.0, "max_tokens": 160}


async def ask(pilot: Pilot[None], question: str) -> None:
    """Asks in a new conversation, and waits for the end of the answer."""
    app = pilot.app
    assert isinstance(app, ChatApp)
    await pilot.press("ctrl+n")
    await pilot.pause()
    app.chat.change(settings=SETTINGS)
    app.editor.put(question)
    await pilot.press("enter")
    await pilot.pause(1)
    while app.session.busy() or any(view.generation for view in app.transcript.views):
        await asyncio.sleep(0.1)
    await pilot.pause(0.5)


async def main(model: str, target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        app = ChatApp(ChildEngine(), Models(), Path(folder) / "history.db", model)
        async with app.run_test(size=SIZE) as pilot:
            app.editor.cursor_blink = False
            while app.session.known(app.chat.conversation.model) is None:
                await asyncio.sleep(0.1)
            for question in QUESTIONS:
                await ask(pilot, question)
            target.write_text(app.export_screenshot(title="edgellm chat"), "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("--to", type=Path, default=Path(__file__).with_name("chat.svg"))
    given = parser.parse_args()
    asyncio.run(main(given.model, given.to))
