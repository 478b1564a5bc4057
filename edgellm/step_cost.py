"""How many prompt tokens a step may compute beside its decodes, from what steps have cost so far.

Answers that are being read must not slow down much when somebody pastes a long text, nor may a
step last long beside them. So decoding earns time that prefill may take (a token bucket, of
seconds), and prefill waits until that pays for a large chunk, or for all that is wanted: each chunk
reads the weights and the prompt's cache anew, and leaves the next decodes with cold caches. With
nobody reading, large steps are the fastest, and only those who come next wait for one. Knows
nothing of sequences; has no say in any result's bits. Plain Python.
"""

from collections import deque
from dataclasses import dataclass

from edgellm.median import median

_SLOWDOWN = 1.7  # of decoding while prompts are computed, at most (2 is promised)
_LONGEST = 0.15  # seconds of a step beside decodes that take less (0.25 is promised)
_LONGEST_ALONE = 0.5
_SETTLING = 0.05  # seconds after prefill in which decodes are slow because of it
_LEAST_ALONE = 128  # tokens: fewer use the processor badly, which would make them fewer still
_UNMEASURED = 32  # tokens beside decodes, where nothing is known yet
_TELLING = 16  # tokens: what fewer take says little of a token more
_DECODES_KEPT = 9  # newest steps, of which the median counts: some are interrupted
_PREFILLS_KEPT = 64
_NEAREST = 3  # of those, by depth, of which the median counts
# Tokens before a token that make it cost as much again, at least: deeper than what was measured
# it is taken to cost so much.
_DOUBLING = 512


@dataclass(frozen=True)
class Work:
    """What a step computes. decode_rows: last tokens of sequences, with the guesses behind them.
    prefill_tokens: of prompts. depth: tokens of the same sequence before a chunk of those. steps:
    as many as this were computed in one call."""

    decode_rows: int
    prefill_tokens: int = 0
    depth: float = 0.0
    steps: int = 1


class StepCost:
    """What decodes and prompt tokens take, and what prefill may take now."""

    def __init__(self) -> None:
        self._decodes: dict[int, deque[float]] = {}  # seconds of steps without prefill, by rows
        self._prefills: deque[tuple[float, float]] = deque(maxlen=_PREFILLS_KEPT)
        self._saved = 0.0  # seconds that decodes have earned for prefill; below 0 a debt
        self._settles_in = 0.0  # seconds of steps

    def observe(self, work: Work, seconds: float) -> None:
        """What this work took."""
        rows, tokens = work.decode_rows, work.prefill_tokens
        is_slowed = tokens > 0 or self._settles_in > 0
        self._settles_in = _SETTLING if tokens else self._settles_in - seconds
        seconds /= work.steps
        if not tokens and not (is_slowed and rows in self._decodes):
            self._decodes.setdefault(rows, deque(maxlen=_DECODES_KEPT)).append(seconds)
        if tokens >= _TELLING:
            rest = max(seconds - self.decode_seconds(max(rows, 1)), 0.05 * seconds)
            self._prefills.append((work.depth, rest / tokens))
        if rows:
            decode = self.decode_seconds(rows)
            earned = _SLOWDOWN * decode - seconds
            if not is_slowed:  # what else slows a step down is not to be paid for
                earned = max(earned, 0.0)
            longest = _longest_prefill(decode)
            self._saved = min(max(self._saved + work.steps * earned, -longest), longest)

    def prefill_tokens(self, decode_rows: int, wanted: int, depth: float) -> int:
        """The most prompt tokens that the next step should compute; 0 only beside decodes.

        wanted: how many there are; depth: how many tokens are before them. Decodes earn enough for
        the next ones in _LONGEST / (_SLOWDOWN - 1) seconds of theirs, or in twice that after a step
        that took far longer than foreseen.
        """
        per_token = self._token_seconds(depth)
        if not decode_rows:
            return max(_LEAST_ALONE, int(_LONGEST_ALONE / per_token)) if per_token else _LEAST_ALONE
        decode = self.decode_seconds(decode_rows)
        if not per_token or not decode:
            return _UNMEASURED
        longest = _longest_prefill(decode)
        tokens = max(1, min(wanted, int(longest / per_token)))
        return tokens if self._saved >= min(tokens * per_token, longest) else 0

    def decode_seconds(self, rows: int) -> float:
        """A step that decodes so many rows, or the nearest number that was measured; 0 unknown."""
        if not self._decodes:
            return 0.0
        return median(self._decodes[min(self._decodes, key=lambda known: abs(known - rows))])

    def _token_seconds(self, depth: float) -> float:
        """A prompt token behind so many others; 0 unknown."""
        if not self._prefills:
            return 0.0
        nearest = sorted(self._prefills, key=lambda known: abs(known[0] - depth))[:_NEAREST]
        return median(
            seconds * max(1.0, (depth + _DOUBLING) / (known + _DOUBLING))
            for known, seconds in nearest
        )


def _longest_prefill(decode: float) -> float:
    """Seconds of prefill in a step whose decodes take `decode`, and the most that can be saved."""
    return max(_LONGEST - decode, (_SLOWDOWN - 1) * decode)
