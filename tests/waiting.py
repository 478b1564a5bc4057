"""Waiting in tests: for the event itself, and as long as the slowest machine may take."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable

import pytest

PATIENCE = 600.0  # seconds; only what hangs takes longer, even where kernels are compiled first


def wait_until(condition: Callable[[], object]) -> None:
    """Returns when the condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


async def until(condition: Callable[[], object]) -> None:
    """The same within an event loop."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        await asyncio.sleep(0.005)


def comes_to_rest(threads: Iterable[threading.Thread]) -> None:
    """Returns when none of these threads takes processor time any more, however little."""
    clock = getattr(time, "pthread_getcpuclockid", None)
    if clock is None:
        pytest.skip("no clock of one thread's processor time here")
    clocks = [clock(thread.ident) for thread in threads]

    def at_rest() -> bool:
        before = [time.clock_gettime(each) for each in clocks]
        time.sleep(0.3)
        return before == [time.clock_gettime(each) for each in clocks]

    assert clocks
    wait_until(at_rest)
