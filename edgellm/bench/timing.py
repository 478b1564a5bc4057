"""Times the engine's steps: a prompt of one sequence, or tokens one by one of several.

What llama-bench times with llama_decode: random tokens, logits of the last row of a step, no text.
A timed step plans, packs, runs and commits, as every step of `run` or `chat` does. Where the
backend draws tokens by itself, decoding goes on with any of the likeliest, several steps to a call
as there; elsewhere with random ones, and nothing is sampled. Knows nothing of files or machines.
"""

import math
import random
import time
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from typing import Protocol

from edgellm.consumer import Rows, checked
from edgellm.engine import Engine
from edgellm.kernels.draw import Draw
from edgellm.sequence import Sequence
from edgellm.types import SamplingParams

CHUNK = 512  # tokens of a prompt in one step
_REQUEST = "bench"
_LIKELIEST = 64  # tokens, of which one is as good as another: the best one might come for ever


@dataclass(frozen=True)
class Workload:
    """n_prompt tokens at once, or n_gen tokens one by one in each of n_seqs sequences.

    One of the two is 0. n_depth: tokens that each sequence has before, computed but not timed.
    """

    n_prompt: int
    n_gen: int
    n_depth: int = 0
    n_seqs: int = 1

    @property
    def num_tokens(self) -> int:
        """Tokens whose computation is timed."""
        return self.n_prompt + self.n_gen * self.n_seqs

    @property
    def num_steps(self) -> int:
        """Steps that are timed."""
        return len(_chunks(self.n_prompt)) + self.n_gen

    @property
    def length(self) -> int:
        """Tokens of each sequence."""
        return self.n_depth + self.n_prompt + self.n_gen


class Read(Protocol):
    """Reads the bytes that a decoded token touches, and does nothing else."""

    def run(self) -> int: ...


@dataclass(frozen=True)
class Samples:
    """Nanoseconds of each repetition, and of one plain read beside it where that was asked for."""

    steps_ns: tuple[int, ...]
    read_ns: tuple[int, ...] = ()


def measure(
    engine: Engine, vocab_size: int, test: Workload, repetitions: int, read: Read | None = None
) -> Samples:
    """Runs a test `repetitions` times after a warm-up that is not counted.

    read: takes turns with the test, as many passes as the test has steps. The engine must be
    idle and have room for all sequences at once. BackendError when a step fails.
    """
    draw = random.Random(0)
    engine.clear_cache()  # of an earlier test, which drew the same tokens

    def ids(of: Workload) -> list[list[int]]:
        return [draw.choices(range(vocab_size), k=of.length) for _ in range(of.n_seqs)]

    warm_up = replace(test, n_gen=min(test.n_gen, 1), n_depth=0)
    _time_steps(engine, warm_up, ids(warm_up))
    if read:
        read.run()
    steps_ns, read_ns = [], []
    for _ in range(repetitions):
        steps_ns.append(_time_steps(engine, test, ids(test)))
        if read:
            read_ns.append(_time_reads(read, passes=test.num_steps))
    return Samples(tuple(steps_ns), tuple(read_ns))


class _Feed:
    """One sequence whose tokens are known before, as far as the backend does not draw them."""

    request_id = _REQUEST

    def __init__(self, engine: Engine, ids: list[int], seed: int) -> None:
        self.sequence = Sequence([], 0, SamplingParams())
        self._draw = Draw(_LIKELIEST, _LIKELIEST, filters=(("temperature", math.inf),), seed=seed)
        self.error: Exception | None = None
        self._engine = engine
        self._ids = ids
        self._last = 0  # tokens that the sequence is to have

    def add(self, count: int, last: int = 0) -> None:
        """Gives the engine the next `count` tokens to compute, and the next one whenever its
        logits are there until there are `last`."""
        self._last = last
        is_new = not self.sequence.token_ids
        self.sequence.token_ids += self._ids[len(self.sequence.token_ids) :][:count]
        if is_new:
            self._engine.add(self)

    def check(self) -> None:
        """Raises what made a step fail."""
        if self.error is not None:
            raise self.error

    @property
    def left(self) -> int:
        """Tokens given that are not computed yet."""
        return len(self.sequence.token_ids) - self.sequence.num_computed_tokens

    def begin(self) -> None:
        pass

    def take(self, rows: Rows, drafts: Seq[int] = ()) -> bool:
        known = len(self.sequence.token_ids)
        self.sequence.token_ids += self._ids[known : min(known + 1, self._last)]
        return False  # more tokens may come

    def draw(self) -> tuple[Draw, float] | None:
        left = self._last - len(self.sequence.token_ids)
        return (self._draw, left) if left > 0 else None

    def take_drawn(self, tokens: Seq[int]) -> bool:
        self.sequence.token_ids += checked(tokens)
        return False

    def abort(self) -> None:
        pass

    def fail(self, error: Exception) -> None:
        self.error = error


def _time_steps(engine: Engine, test: Workload, ids: list[list[int]]) -> int:
    """Nanoseconds that the timed part of a test takes."""
    feeds = [_Feed(engine, own, seed) for seed, own in enumerate(ids)]
    try:
        if test.n_depth:
            _advance(engine, feeds, 1)  # all are let in while there is room for sure
            for feed in feeds:
                for count in _chunks(test.n_depth - 1):
                    _advance(engine, [feed], count)
        begin = time.perf_counter_ns()
        for count in _chunks(test.n_prompt):
            _advance(engine, feeds, count)
        if test.n_gen:
            _advance(engine, feeds, 1, test.length)
        return time.perf_counter_ns() - begin
    finally:
        engine.abort(_REQUEST)


def _advance(engine: Engine, feeds: Seq[_Feed], count: int, last: int = 0) -> None:
    """Adds so many tokens to every sequence and computes them, and one by one those up to `last`.

    They take several steps where one would last too long for the engine's taste.
    """
    for feed in feeds:
        feed.add(count, last)
    while any(feed.left for feed in feeds):
        done = [feed.sequence.num_computed_tokens for feed in feeds]
        engine.step()
        for feed in feeds:
            feed.check()
        if done == [feed.sequence.num_computed_tokens for feed in feeds]:
            raise RuntimeError("a step computed nothing")


def _time_reads(read: Read, passes: int) -> int:
    """Nanoseconds of one pass."""
    begin = time.perf_counter_ns()
    for _ in range(passes):
        read.run()
    return (time.perf_counter_ns() - begin) // passes


def _chunks(tokens: int) -> list[int]:
    whole, rest = divmod(tokens, CHUNK)
    return [CHUNK] * whole + [rest] * (rest > 0)
