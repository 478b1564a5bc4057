"""Work in threads: results, errors, threads that are used again and go when there is no work."""

import asyncio
import threading

import pytest

from edgellm.client import threads
from edgellm.client.threads import Threads
from tests.waiting import PATIENCE


def test_results_and_errors_come_back() -> None:
    async def main() -> None:
        work = Threads()
        assert await work.do(lambda: 7) == 7
        with pytest.raises(ValueError, match="no"):
            await work.do(lambda: int("no"))

    asyncio.run(main())


def test_one_thread_does_what_comes_one_after_another() -> None:
    async def main() -> set[int]:
        work, seen = Threads(), set[int]()
        for _ in range(5):
            thread = await work.do(threading.current_thread)
            seen.add(thread.ident or 0)
            while not work.idle:  # it has said its result and is about to wait
                await asyncio.sleep(0.001)
        return seen

    assert len(asyncio.run(main())) == 1


def test_works_that_wait_for_each_other_are_done_side_by_side() -> None:
    meeting = threading.Barrier(9)

    async def main() -> None:
        work = Threads()
        for _ in range(3):
            await asyncio.gather(*(work.do(lambda: meeting.wait(PATIENCE)) for _ in range(9)))
            assert work.idle <= threads.MOST_IDLE

    asyncio.run(main())


def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.01)

    async def main() -> None:
        work = Threads()
        thread = await work.do(threading.current_thread)
        await asyncio.to_thread(thread.join, PATIENCE)
        assert not thread.is_alive() and not work.idle
        assert await work.do(lambda: 7) == 7

    asyncio.run(main())
