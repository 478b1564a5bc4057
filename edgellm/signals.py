"""Signals: handled in another way for a while, and named. Knows nothing of what they interrupt."""

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]


@contextmanager
def handled(
    numbers: Iterable[int], handler: Handler, replaces: Callable[[Any], bool]
) -> Iterator[None]:
    """Within, `handler` gets those of the signals of whose own handlers `replaces` says yes. No
    change outside of the main thread, where none can be made."""
    before = {}
    if current_thread() is main_thread():
        for number in numbers:
            if replaces(signal.getsignal(number)):
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, own in before.items():
            signal.signal(number, own)


def signal_name(number: int) -> str:
    """SIGKILL of 9; "signal 35" of one without a name, as most real-time signals are."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
