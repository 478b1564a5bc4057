"""How many prompt tokens a step may compute beside its decodes, from what steps have cost so far.

Answers that are being read must not slow down much when somebody pastes a long text, nor may a
step last long. Knows nothing of sequences; has no say in any result's bits. Plain Python.
"""

_SLOWDOWN = 1.8  # of decoding while prompts are computed, at most (2 is promised)
_LONGEST = 0.15  # seconds that a step of prefill aims at (0.25 is promised)
_UNMEASURED = 32  # tokens, where nothing is known yet
_WEIGHT = 0.25  # of the newest measurement in a running mean


class StepCost:
    """Running means of what decodes and prompt tokens take."""

    def __init__(self) -> None:
        self._decode: dict[int, float] = {}  # rows -> seconds of a step without prefill
        self._per_token: dict[bool, float] = {}  # beside decodes or not -> seconds

    def observe(self, decode_rows: int, prefill_tokens: int, seconds: float) -> None:
        """A step of so many rows took `seconds`."""
        if not prefill_tokens:
            self._decode[decode_rows] = _mean(self._decode.get(decode_rows), seconds)
            return
        beside = decode_rows > 0
        rest = max(seconds - self._decode_seconds(decode_rows), 0.05 * seconds)
        self._per_token[beside] = _mean(self._per_token.get(beside), rest / prefill_tokens)

    def prefill_tokens(self, decode_rows: int) -> int:
        """The most prompt tokens that the next step should compute, at least 1."""
        per_token = self._per_token.get(decode_rows > 0)
        decode = self._decode_seconds(decode_rows)
        if per_token is None or (decode_rows and not decode):
            return _UNMEASURED
        longest = _LONGEST - decode
        if decode_rows:
            longest = min(longest, (_SLOWDOWN - 1) * decode)
        return max(1, int(longest / per_token))

    def _decode_seconds(self, rows: int) -> float:
        """A step that decodes so many rows, or the nearest number that was measured; 0 unknown."""
        if not rows or not self._decode:
            return 0.0
        return self._decode[min(self._decode, key=lambda known: abs(known - rows))]


def _mean(old: float | None, new: float) -> float:
    return new if old is None else old + _WEIGHT * (new - old)
