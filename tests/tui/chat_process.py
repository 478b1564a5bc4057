"""A chat in a process of its own, whose model is a script: `python -m tests.tui.chat_process FOLDER
WORD`. It writes a line for each look at its answer: the time and the number of characters."""

import asyncio
import sys
import time
from pathlib import Path

from edgellm.tui.app import ChatApp
from tests.tui.piloted import chatting, say
from tests.tui.scripted import ScriptedClient

LOOK = 0.02  # seconds


async def main(folder: Path, word: str) -> None:
    client = ScriptedClient(lambda prompt: f"{word} " * 100_000)
    client.delay, client.piece = 0.01, 5
    async with chatting(folder, client) as pilot:
        app = pilot.app
        assert isinstance(app, ChatApp)
        await say(pilot, word, wait=False)
        while (generation := app.session.generation(app.chat)) is not None:
            print(time.monotonic(), len(generation.text), flush=True)
            await asyncio.sleep(LOOK)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
