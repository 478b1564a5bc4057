"""Who waits for what the engine computes: one consumer per sequence, and those who follow it.

A follower wants the same prompt answered, and begins as a fork when that is computed. Knows
nothing of steps. A consumer's own failure is not the engine's: whoever waited may be gone.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from edgellm.consumer import Consumer
from edgellm.errors import EdgeLLMError
from edgellm.sequence import Sequence


class Consumers:
    """The consumers of one engine by their sequences."""

    def __init__(self) -> None:
        self._by_sequence: dict[Sequence, Consumer] = {}
        self._followers: dict[Sequence, list[Consumer]] = {}

    def __getitem__(self, sequence: Sequence) -> Consumer:
        return self._by_sequence[sequence]

    def __iter__(self) -> Iterator[Sequence]:
        """The sequences, as they are now."""
        return iter(list(self._by_sequence))

    @property
    def num_followers(self) -> int:
        return sum(map(len, self._followers.values()))

    def enter(self, consumer: Consumer, followers: Iterable[Consumer] = ()) -> None:
        self._by_sequence[consumer.sequence] = consumer
        self._followers[consumer.sequence] = list(followers)

    def leave(self, sequence: Sequence) -> list[Consumer]:
        """Forgets a sequence; its consumer, and those who still follow it."""
        return [self._by_sequence.pop(sequence), *self._followers.pop(sequence)]

    def has_followers(self, sequence: Sequence) -> bool:
        return bool(self._followers[sequence])

    def take_followers(self, sequence: Sequence) -> list[Consumer]:
        """Those who follow the sequence, and no longer do."""
        followers, self._followers[sequence] = self._followers[sequence], []
        return followers

    def leave_request(self, request_id: str) -> list[Consumer]:
        """Forgets the followers of a request, wherever they wait."""
        left = []
        for followers in self._followers.values():
            left += [c for c in followers if c.request_id == request_id]
            followers[:] = [c for c in followers if c.request_id != request_id]
        return left

    def of_request(self, request_id: str) -> list[Sequence]:
        return [s for s, c in self._by_sequence.items() if c.request_id == request_id]


def abort(consumers: Iterable[Consumer]) -> None:
    """Tells consumers that nobody wants their answers any more."""
    for consumer in consumers:
        with suppress(Exception):
            consumer.abort()


def fail(consumers: Iterable[Consumer], error: Exception) -> None:
    """Tells consumers. An error of our own goes out as it is, another one as a failed step."""
    if not isinstance(error, EdgeLLMError):
        wrapped = EdgeLLMError(f"the engine failed: {type(error).__name__}: {error}")
        wrapped.__cause__ = error
        error = wrapped
    for consumer in consumers:
        with suppress(Exception):
            consumer.fail(error)
