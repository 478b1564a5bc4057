"""Events on their way to a loop, and what waits until they are there."""

import asyncio
from collections.abc import Callable

from edgellm.client.crossing import Crossing
from edgellm.types import TokenEvent


def event(text: str) -> TokenEvent:
    return TokenEvent(0, text, (1,))


def test_what_waits_for_events_is_called_once_all_are_taken() -> None:
    heard: list[str] = []
    steps: list[Callable[[], None]] = []

    async def main() -> None:
        crossing = Crossing(asyncio.get_running_loop(), steps.append)

        def take(found: TokenEvent | Exception) -> None:
            assert isinstance(found, TokenEvent)
            heard.append(found.text)
            crossing.after_events(lambda: heard.append(f"after {found.text}"))

        for text in "ab":
            crossing.put(take, event(text))
        assert len(steps) == 1, "the loop is woken once for all events of a step"
        steps.pop()()
        await asyncio.sleep(0)
        assert heard == ["a", "b", "after a", "after b"]
        crossing.put(take, event("c"))
        steps.pop()()
        await asyncio.sleep(0)
        assert heard[4:] == ["c", "after c"]
        crossing.after_events(lambda: heard.append("at once"))
        assert heard[6:] == ["at once"]

    asyncio.run(main())
