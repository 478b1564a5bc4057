"""A chat in a process of its own, whose model is a script: `python -m tests.tui.chat_process FOLDER
WORD`. It writes a line when its answer, which has no end, has begun."""

import asyncio
import sys
from pathlib import Path

from tests.tui.piloted import app_of, chatting, say, until
from tests.tui.scripted import ScriptedClient


async def main(folder: Path, word: str) -> None:
    client = ScriptedClient(lambda prompt: f"{word} " * 100_000)
    client.delay, client.piece = 0.01, 5
    async with chatting(folder, client) as pilot:
        app = app_of(pilot)
        await say(pilot, word, wait=False)
        await until(pilot, lambda: (g := app.session.generation(app.chat)) and g.text)
        print("begun", flush=True)
        while app.session.busy():
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
