"""Garbage collections that do not hold up keys: the long ones wait until nothing is written."""

import gc

EVERY = 60.0  # seconds between two full collections


def begin() -> None:
    """What is there now is never looked at again, and full collections are asked for alone."""
    gc.set_threshold(5_000, 4, 1_000_000)  # often, each a few milliseconds
    gc.collect()
    gc.freeze()


def collect(is_busy: bool) -> None:
    """A full collection stops everything for a tenth of a second: not while answers come."""
    if not is_busy:
        gc.collect()
