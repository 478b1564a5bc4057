"""Guesses of the head that the model's own file brings for them (multi-token prediction).

It reads what the model makes of each token, so that it follows all steps: its keys and values lie
in the same blocks as the model's, and wherever blocks are shared, copied or kept, so are they. A
row that was not seen, such as the one before what a cache had, counts as zeros: guesses may be
worse for it, and no text can change. Source: DeepSeek-AI 2024 (DeepSeek-V3), section 2.2.
"""

import time
from collections.abc import Callable, Mapping, Sequence as Seq
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from edgellm.drafters.drafter import Hidden
from edgellm.drafters.head_runner import HeadRows
from edgellm.drafters.learning import GuessTime, HitRate
from edgellm.errors import EdgeLLMError
from edgellm.sampling import Sampler, Vocabulary
from edgellm.sequence import Sequence

_DEPTH = 8  # guesses in a row: each reads the head's row for the one before, not the model's
_BEHIND = 8  # rows of the model that wait before the head reads them, where nothing is guessed

Room = Callable[[Sequence, int], bool]  # blocks for so many more tokens, if they are free


class Head(Protocol):
    """What is asked of a HeadRunner."""

    @property
    def most_rows(self) -> int: ...

    def read(self, rows: HeadRows) -> None: ...

    def predict(self, parts: Seq[HeadRows]) -> tuple[npt.NDArray[np.float32], Hidden]: ...

    def close(self) -> None: ...


class MTP:
    """A Drafter. vocabulary: of the model."""

    name = "mtp"

    def __init__(self, head: Head, room: Room, vocabulary: Vocabulary) -> None:
        self._head = head
        self._room = room
        self._vocabulary = vocabulary
        self._readings: dict[Sequence, _Reading] = {}
        self._time = GuessTime()

    def follow(self, sequence: Sequence, first: int, hidden: Hidden) -> None:
        reading = self._readings.setdefault(sequence, _Reading())
        reading.follow(first, hidden)
        if reading.num_behind >= _BEHIND:
            self._catch_up(sequence, reading)

    def chances(self, sequence: Sequence, most: int) -> list[float]:
        reading = self._readings.get(sequence)
        if reading is None or reading.end != len(sequence.token_ids) - 1:
            return []
        reading.judge(sequence.token_ids)
        return [hits.chance for hits in reading.hits[:most]]

    def seconds(self, count: int) -> float:
        return count * self._time.seconds

    def draft(self, counts: Mapping[Sequence, int]) -> dict[Sequence, list[int]]:
        begun = time.perf_counter()
        parts = []
        for sequence, count in counts.items():
            if self._room(sequence, count):
                parts.append(self._readings[sequence].last_part(sequence))
        if sum(len(part.tokens) for part in parts) > self._head.most_rows:
            for part in parts:
                self._catch_up(part.sequence, self._readings[part.sequence])
            parts = [self._readings[part.sequence].last_part(part.sequence) for part in parts]
        drafts: dict[Sequence, list[int]] = {part.sequence: [] for part in parts}
        samplers = {s: self._sampler(s) for s in drafts}
        while parts:
            parts = self._guess(parts, drafts, samplers, counts)
        for sequence, draft in drafts.items():
            self._readings[sequence].guess(len(sequence.token_ids), draft)
        if drafts:
            self._time.observe((time.perf_counter() - begun) / max(counts[s] for s in drafts))
        else:
            self._time.fade()
        return {s: draft for s, draft in drafts.items() if draft}

    def forget(self, sequence: Sequence) -> None:
        self._readings.pop(sequence, None)

    def close(self) -> None:
        self._head.close()

    def _catch_up(self, sequence: Sequence, reading: "_Reading") -> None:
        """Has the head read all rows that wait."""
        if reading.num_behind:
            self._head.read(reading.part_behind(sequence))
            reading.are_read(reading.end)

    def _sampler(self, sequence: Sequence) -> Sampler:
        """Draws with the same random numbers as the model's own: who thinks alike draws alike."""
        params, index = sequence.params, sequence.sample_index
        return Sampler(params, self._vocabulary, seed=sequence.seed, sample_index=index)

    def _guess(
        self,
        parts: list[HeadRows],
        drafts: dict[Sequence, list[int]],
        samplers: Mapping[Sequence, Sampler],
        counts: Mapping[Sequence, int],
    ) -> list[HeadRows]:
        """One more guess for each part; what must be run for those that want another."""
        more = []
        for part, row, hidden in zip(parts, *self._head.predict(parts), strict=True):
            sequence, draft = part.sequence, drafts[part.sequence]
            history = sequence.token_ids + draft
            num_generated = len(history) - sequence.num_prompt_tokens
            try:
                token = samplers[sequence].sample(row, history, num_generated)
            except EdgeLLMError:  # the model's own draw will say what is wrong
                continue
            draft.append(token)
            if len(draft) < counts[sequence]:
                more.append(HeadRows(sequence, len(history), [token], hidden[None]))
        return more


@dataclass(eq=False)
class _Reading:
    """How far the head has read a sequence, and how often it guessed right.

    end: so many tokens have known rows of the model; last: that of the last of them. behind: the
    row before each token that the head has not read, in pieces; the last of these tokens is at
    position end - 1. read: so many tokens has it read at least.
    asked, guessed: of how many tokens it was last asked, and what it said would come.
    """

    end: int = 0
    last: Hidden | None = None
    behind: list[Hidden] = field(default_factory=list)
    read: int = 0
    asked: int = 0
    guessed: list[int] = field(default_factory=list)
    hits: list[HitRate] = field(default_factory=lambda: [HitRate() for _ in range(_DEPTH)])

    @property
    def num_behind(self) -> int:
        return sum(map(len, self.behind))

    def follow(self, first: int, hidden: Hidden) -> None:
        """The model's rows from position `first` on; elsewhere than where it ended, begin anew."""
        before = self.last
        if before is None or first != self.end:
            before = np.zeros_like(hidden[:1])
            self.behind, self.read = [], first
        rows = np.concatenate([before, hidden[:-1]])[max(0, self.read - first) :]
        if len(rows):
            self.behind.append(rows)
        self.last, self.end = hidden[-1:].copy(), first + len(hidden)

    def part_behind(self, sequence: Sequence) -> HeadRows:
        """What the head has not read, the last token apart."""
        first = self.end - self.num_behind
        tokens = sequence.token_ids[first : self.end]
        return HeadRows(sequence, first, tokens, np.concatenate(self.behind))

    def last_part(self, sequence: Sequence) -> HeadRows:
        """What the head has not read, and the last token, whose row is not computed yet."""
        assert self.last is not None
        first = self.end - self.num_behind
        hidden = np.concatenate([*self.behind, self.last])
        return HeadRows(sequence, first, sequence.token_ids[first:], hidden)

    def are_read(self, count: int) -> None:
        """The head has read so many tokens."""
        self.behind, self.read = [], count

    def guess(self, length: int, draft: list[int]) -> None:
        """Of a text of so many tokens, all of which it has read, it said that this would follow."""
        self.are_read(length)
        self.asked, self.guessed = length, draft

    def judge(self, tokens: list[int]) -> None:
        """Counts the guesses that have been decided since."""
        for hits in self.hits[len(self.guessed) :]:
            hits.recover()
        decided = zip(self.hits, self.guessed, tokens[self.asked :], strict=False)
        for hits, guess, token in decided:
            hits.count(guess == token)
            if guess != token:
                break
        self.guessed = []
