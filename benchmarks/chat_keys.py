"""How soon the chat answers a key while four long answers stream, in processor time.

    python benchmarks/chat_keys.py --characters 20000

Four conversations are answered at once, one of them shown, by a model that is a script. While they
grow, a key is pressed now and then; what counts is the processor time of the app's thread from the
key to the screen that shows it, whatever else was drawn meanwhile. The longest turn of the event
loop says how long a key may have to wait before it is read at all. Times of a loaded machine mean
as much as those of an idle one.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from textual.events import Key
from textual.pilot import Pilot

from edgellm.tui import interpreter
from edgellm.tui.app import ChatApp
from tests.tui.piloted import chatting, say, until
from tests.tui.scripted import ScriptedClient

BLOCK = """\
## A heading of the answer

A paragraph with *emphasis*, `code` and a [link](https://example.com) in it, long enough to be
wrapped on most screens, as paragraphs of answers are. It has a second sentence, too.

```python
def function(argument: int) -> str:
    return f"{argument}"  # with a comment
```

1. the first point, with **bold** words in it
2. the second point
   - and one below it

| name | value |
|---|---|
| one | 1 |
| two | 2 |

"""
CONVERSATIONS = 4
STREAM = 25  # additions a second
PIECE = 12  # characters of an addition
EVERY = 0.4  # seconds between two keys


class TimedLoop(asyncio.SelectorEventLoop):
    """Keeps the processor time of its longest turn."""

    longest = 0.0

    def _run_once(self) -> None:
        begun = time.thread_time()
        super()._run_once()  # type: ignore[misc]
        self.longest = max(self.longest, time.thread_time() - begun)


@dataclass
class Sample:
    """One key, pressed when the answer had so many characters. Seconds of processor time."""

    length: int
    key: float
    turn: float


@dataclass
class Typist:
    """Presses keys and times what comes of them."""

    app: ChatApp
    loop: TimedLoop
    samples: list[Sample] = field(default_factory=list)

    async def press(self, length: int) -> None:
        """length: characters of the answer shown, now."""
        before = self.app.editor.text
        turn, self.loop.longest = self.loop.longest, 0.0
        begun = time.thread_time()
        self.app.post_message(Key("x", "x"))
        while self.app.editor.text == before:
            await asyncio.sleep(0)
        drawn = asyncio.Event()
        self.app.editor.call_after_refresh(drawn.set)
        await drawn.wait()
        self.samples.append(Sample(length, time.thread_time() - begun, turn))


async def measure(characters: int, pilot: Pilot[None], typist: Typist) -> None:
    app = typist.app
    for number in range(CONVERSATIONS):
        if number:
            await pilot.press("ctrl+n")
            await until(pilot, lambda: not app.chat.messages)
        await say(pilot, "question", wait=False)
    while (generation := app.session.generation(app.chat)) is not None:
        length = len(generation.text)
        if length >= characters:
            break
        await typist.press(length)
        await asyncio.sleep(EVERY)
    await pilot.press("escape")


def report(samples: Sequence[Sample], characters: int, parts: int = 4) -> None:
    print(f"{'characters':>16}{'keys':>6}{'median ms':>11}{'worst':>7}{'longest turn':>14}")
    for part in range(parts):
        low, high = (characters * n // parts for n in (part, part + 1))
        found = [sample for sample in samples if low <= sample.length < high]
        if not found:
            continue
        keys = [1000 * sample.key for sample in found]
        turn = statistics.median(1000 * sample.turn for sample in found)
        print(
            f"{f'{low} to {high}':>16}{len(found):>6}{statistics.median(keys):>11.1f}"
            f"{max(keys):>7.1f}{turn:>14.1f}"
        )


async def main(characters: int) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, TimedLoop)
    text = BLOCK * (characters // len(BLOCK) + 2)
    client = Streaming(text)
    with tempfile.TemporaryDirectory() as folder:
        async with chatting(Path(folder), client, size=(120, 40)) as pilot:
            app = pilot.app
            assert isinstance(app, ChatApp)
            app.editor.focus()
            typist = Typist(app, loop)
            await measure(characters, pilot, typist)
            report(typist.samples, characters)


class Streaming(ScriptedClient):
    """Gives a text at a steady rate, however slowly it is drawn."""

    def __init__(self, text: str) -> None:
        super().__init__(lambda prompt: text)
        self.delay = 1 / STREAM
        self.piece = PIECE


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--characters", type=int, default=20_000)
    given = parser.parse_args()
    interpreter.begin()
    with asyncio.Runner(loop_factory=TimedLoop) as runner:
        runner.run(main(given.characters))
