"""Drafters that guess what a test tells them to. Holds no tests."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count

from edgellm.drafters import Drafter, Speculation
from edgellm.drafters.drafter import Hidden
from edgellm.engine import Engine
from edgellm.sequence import Sequence
from tests.mock_model import MockModel, make_engine

Guess = Callable[[list[int]], list[int]]  # from the tokens so far to guesses for the next ones


class Scripted:
    """A Drafter that is sure of whatever `guess` says."""

    name = "lookup"

    def __init__(self, guess: Guess, chance: float = 1.0) -> None:
        self.guess = guess
        self.chance = chance
        self.sequences: set[Sequence] = set()
        self.is_closed = False

    def follow(self, sequence: Sequence, first: int, hidden: Hidden) -> None:
        pass

    def chances(self, sequence: Sequence, most: int) -> list[float]:
        self.sequences.add(sequence)
        return [self.chance] * min(most, len(self.guess(sequence.token_ids)))

    def seconds(self, count: int) -> float:
        return 0.0

    def draft(self, counts: Mapping[Sequence, int]) -> dict[Sequence, list[int]]:
        return {s: self.guess(s.token_ids)[:n] for s, n in counts.items()}

    def forget(self, sequence: Sequence) -> None:
        self.sequences.discard(sequence)

    def close(self) -> None:
        self.is_closed = True


def speculating(model: MockModel, drafter: Drafter, **sizes: int) -> Engine:
    """An engine whose steps all seem to take one second, whatever they compute."""
    scheduler, seconds = make_engine(model, **sizes)._scheduler, count()
    limits = replace(scheduler.limits, max_logits_rows=40)
    speculation = Speculation((drafter,), limits)
    return Engine(model, scheduler, speculation, lambda: float(next(seconds)))  # type: ignore[arg-type]
