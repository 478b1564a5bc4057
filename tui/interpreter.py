"""Python set up so that keys do not wait for a garbage collection, or for their thread's turn."""

import gc
import sys

COLLECT_EVERY = 60.0  # seconds between two full collections
_TURN = 0.0005  # seconds a thread may keep others waiting; a key passes through three of them


def begin() -> None:
    """What is there now is never looked at again, and full collections are asked for alone."""
    sys.setswitchinterval(_TURN)
    gc.set_threshold(5_000, 4, 1_000_000)  # often, each a few milliseconds
    gc.collect()
    gc.freeze()


def collect(is_busy: bool) -> None:
    """A full collection stops everything for a tenth of a second: not while answers come."""
    if not is_busy:
        gc.collect()
