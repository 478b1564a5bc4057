"""Commands that write files and are told to end: what they had begun is taken back first."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from edgellm.signals import handled

_NAMES = ("SIGTERM", "SIGHUP")  # Ctrl-C is an exception by itself


@contextmanager
def leaves_nothing() -> Iterator[None]:
    """Within, signals that end a process raise SystemExit, with the code that shells expect, so
    that files which are not whole are deleted. No change outside of the main thread, where none
    can be made, and for signals that whoever started us has us ignore."""
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    with handled(numbers, _leave, lambda own: own is signal.SIG_DFL):
        yield


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
