"""How many prompt tokens a step may compute beside its decodes, from what steps have cost so far.

Answers that are being read must not slow down much when somebody pastes a long text, nor may a
step last long beside them. So decoding earns time that prefill may take (a token bucket, of
seconds), and prefill waits until that is enough for a chunk worth its reading of weights and of
the cache so far. With nobody reading, large steps are the fastest, and only those who come next
wait for one. Knows nothing of sequences; has no say in any result's bits. Plain Python.
"""

from collections import deque
from statistics import median

_SLOWDOWN = 1.8  # of decoding while prompts are computed, at most (2 is promised)
_LONGEST = 0.15  # seconds of a step beside decodes (0.25 is promised), and most that can be saved
_LONGEST_ALONE = 0.5
_LEAST = 16  # tokens beside decodes: fewer read the prompt's cache for too little
_LEAST_ALONE = 128  # tokens: fewer use the processor badly, which would make them fewer still
_UNMEASURED = 32  # tokens beside decodes, where nothing is known yet
_KEPT = 9  # newest measurements, of which the median counts: some steps are interrupted


class _Cost:
    """The median of the newest measurements, in seconds; 0 before the first."""

    def __init__(self) -> None:
        self._newest: deque[float] = deque(maxlen=_KEPT)

    def add(self, seconds: float) -> None:
        self._newest.append(seconds)

    @property
    def seconds(self) -> float:
        return median(self._newest) if self._newest else 0.0


class StepCost:
    """What decodes and prompt tokens take, alone and together, and what prefill may take now."""

    def __init__(self) -> None:
        self._decode: dict[int, _Cost] = {}  # of a step without prefill, by its rows
        self._per_token = {False: _Cost(), True: _Cost()}  # by whether decodes were beside it
        self._saved = 0.0  # seconds that decodes have earned for prefill; below 0 a debt

    def observe(self, decode_rows: int, prefill_tokens: int, seconds: float) -> None:
        """A step of so many rows took `seconds`."""
        if not prefill_tokens:
            self._decode.setdefault(decode_rows, _Cost()).add(seconds)
            self._earn(decode_rows, 0.0)
            return
        if not decode_rows and prefill_tokens < _LEAST_ALONE:
            return  # mostly the reading of weights: says little of a token more
        rest = max(seconds - self._decode_seconds(decode_rows), 0.05 * seconds)
        self._per_token[decode_rows > 0].add(rest / prefill_tokens)
        self._earn(decode_rows, rest if decode_rows else 0.0)

    def prefill_tokens(self, decode_rows: int) -> int:
        """The most prompt tokens that the next step should compute; 0 only beside decodes.

        Decodes earn enough for the next ones in _LONGEST / (_SLOWDOWN - 1) seconds of theirs, or in
        twice that after a step that took far longer than foreseen.
        """
        per_token = self._per_token[decode_rows > 0].seconds
        if not decode_rows:
            return max(_LEAST_ALONE, int(_LONGEST_ALONE / per_token)) if per_token else _LEAST_ALONE
        decode = self._decode_seconds(decode_rows)
        if not per_token or not decode:
            return _UNMEASURED
        longest = max(_LONGEST - decode, 0.0)
        if self._saved < min(_LEAST * per_token, longest):
            return 0
        return max(1, int(min(self._saved, longest) / per_token))

    def _earn(self, decode_rows: int, spent: float) -> None:
        earned = (_SLOWDOWN - 1) * self._decode_seconds(decode_rows)
        self._saved = min(max(self._saved + earned - spent, -_LONGEST), _LONGEST)

    def _decode_seconds(self, rows: int) -> float:
        """A step that decodes so many rows, or the nearest number that was measured; 0 unknown."""
        if not rows or not self._decode:
            return 0.0
        return self._decode[min(self._decode, key=lambda known: abs(known - rows))].seconds
