"""Commands that write files and are told to end: what they had begun is taken back first."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import NoReturn

_NAMES = ("SIGTERM", "SIGHUP")  # Ctrl-C is an exception by itself


@contextmanager
def leaves_nothing() -> Iterator[None]:
    """Within, signals that end a process raise SystemExit, with the code that shells expect, so
    that files which are not whole are deleted. No change outside of the main thread, where none
    can be made, and for signals that whoever started us has us ignore."""
    before = {}
    if current_thread() is main_thread():
        for number in [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]:
            if signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
