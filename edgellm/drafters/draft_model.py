"""Guesses of a smaller model with the same vocabulary, in an engine of its own.

Each guess is an ordinary answer of that engine: its cache finds what it has read before, so only
new tokens are computed. It is drawn by the same samplers with the same random numbers as the large
model's own token, so that models which think alike draw alike. Knows nothing of how it computes.
"""

import time
from collections.abc import Callable, Mapping, Sequence as Seq
from dataclasses import dataclass, field
from typing import Protocol

from edgellm.consumer import Consumer, Rows, checked
from edgellm.drafters.drafter import Hidden
from edgellm.drafters.learning import GuessTime, HitRate
from edgellm.kernels.draw import Draw
from edgellm.sampling import Sampler, Vocabulary
from edgellm.sequence import Sequence

_PIECE = 64  # tokens of a new text read per step of the large model, which waits meanwhile
_NEWS = 24  # unread tokens that do not keep it from guessing, nor make guesses seem dear


class Steps(Protocol):
    """What is asked of an engine."""

    def add(self, consumer: Consumer) -> None: ...

    def step(self) -> None: ...

    def close(self) -> None: ...


class DraftModel:
    """A Drafter. vocabulary: of the large model; ids below vocab_size mean the same in both.

    release: is called once the engine is closed. clock: seconds.
    """

    name = "draft"

    def __init__(
        self,
        engine: Steps,
        vocabulary: Vocabulary,
        vocab_size: int,
        release: Callable[[], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._engine = engine
        self._vocabulary = vocabulary
        self._vocab_size = vocab_size
        self._release = release
        self._clock = clock
        self._readings: dict[Sequence, _Reading] = {}
        self._time = GuessTime()

    def follow(self, sequence: Sequence, first: int, hidden: Hidden) -> None:
        """It makes rows of its own."""

    def chances(self, sequence: Sequence, most: int) -> list[float]:
        reading = self._readings.setdefault(sequence, _Reading())
        reading.judge(sequence.token_ids)
        return [reading.hits.chance] * most

    def seconds(self, count: int) -> float:
        return count * self._time.seconds

    def draft(self, counts: Mapping[Sequence, int]) -> dict[Sequence, list[int]]:
        guesses: dict[Sequence, _Guess] = {}
        reads = []
        for sequence, count in counts.items():
            length, reading = len(sequence.token_ids), self._readings[sequence]
            if length - reading.known > _NEWS:
                reading.known = min(length, reading.known + _PIECE)
                reads.append(self._guess(sequence, reading.known, 1))
            else:
                reading.known = length
                guesses[sequence] = self._guess(sequence, length, count)
        self._run(reads)
        begun = self._clock()
        self._run(list(guesses.values()))
        if guesses:
            longest = max(counts[sequence] for sequence in guesses)
            self._time.observe((self._clock() - begun) / longest)
        else:
            self._time.fade()
        drafts = {s: self._known(guess.tokens) for s, guess in guesses.items()}
        for sequence, draft in drafts.items():
            self._readings[sequence].guessed = draft
        return {s: draft for s, draft in drafts.items() if draft}

    def forget(self, sequence: Sequence) -> None:
        self._readings.pop(sequence, None)

    def close(self) -> None:
        self._engine.close()
        self._release()

    def _guess(self, sequence: Sequence, length: int, count: int) -> "_Guess":
        """What comes after the first `length` tokens."""
        params, index, seed = sequence.params, sequence.sample_index, sequence.seed
        own = Sequence(sequence.token_ids[:length], length, params, index, seed)
        sampler = Sampler(params, self._vocabulary, seed=seed, sample_index=index)
        return _Guess(own, count, sampler, sequence.num_prompt_tokens)

    def _run(self, guesses: "Seq[_Guess]") -> None:
        for guess in guesses:
            self._engine.add(guess)
        while not all(guess.is_over for guess in guesses):
            self._engine.step()

    def _known(self, tokens: list[int]) -> list[int]:
        """The tokens before the first that the large model does not have."""
        end = next((i for i, token in enumerate(tokens) if token >= self._vocab_size), len(tokens))
        return tokens[:end]


@dataclass(eq=False)
class _Reading:
    """How far the draft model has read a sequence, and how often it guessed right.

    known: tokens read. guessed: what it said would come after them, when it was last asked.
    """

    known: int = 0
    guessed: list[int] = field(default_factory=list)
    hits: HitRate = field(default_factory=HitRate)

    def judge(self, tokens: list[int]) -> None:
        """Counts the guesses that have been decided since."""
        if not self.guessed:
            self.hits.recover()
        for guess, token in zip(self.guessed, tokens[self.known :], strict=False):
            self.hits.count(guess == token)
            if guess != token:
                break
        self.guessed = []


class _Guess:
    """A consumer that draws `count` tokens. answer_from: where the answer begun before them."""

    request_id = "draft"

    def __init__(self, sequence: Sequence, count: int, sampler: Sampler, answer_from: int) -> None:
        self.sequence = sequence
        self.is_over = False
        self._count = count
        self._sampler = sampler
        self._answer_from = answer_from

    @property
    def tokens(self) -> list[int]:
        """Those guessed so far."""
        return self.sequence.token_ids[self.sequence.num_prompt_tokens :]

    def begin(self) -> None:
        pass

    def take(self, rows: Rows, drafts: Seq[int] = ()) -> bool:
        history = self.sequence.token_ids
        return self.take_drawn([self._sampler.sample(rows[-1], history, self._num_generated)])

    def draw(self) -> tuple[Draw, float] | None:
        return self._sampler.draw(self._num_generated, self._count - len(self.tokens))

    def take_drawn(self, tokens: Seq[int]) -> bool:
        self.sequence.token_ids += checked(tokens)
        self.is_over = len(self.tokens) == self._count
        return self.is_over

    @property
    def _num_generated(self) -> int:
        return max(0, len(self.sequence.token_ids) - self._answer_from)

    def abort(self) -> None:
        self.is_over = True

    def fail(self, error: Exception) -> None:
        """What was guessed before counts; a text too long for the draft model has no guesses."""
        self.is_over = True
