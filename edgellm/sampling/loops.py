"""Notices when a text repeats itself without end. Knows nothing of what the tokens mean."""

import numpy as np

_LONGEST = 256  # tokens of the phrase repeated
_TIMES = 8  # so often it must have come
_LEAST = 64  # tokens in all: a line of dashes is no loop yet
_LENGTHS = np.arange(1, _LONGEST + 1)
_ENOUGH = np.maximum(_LENGTHS * (_TIMES - 1), _LEAST)  # tokens equal to the one a phrase before


class LoopDetector:
    """Follows the tokens of one answer."""

    def __init__(self) -> None:
        self._recent = np.full(_LONGEST, -1, np.int64)  # the last tokens, latest first
        self._runs = np.zeros(_LONGEST, np.int64)  # per length of phrase

    def push(self, token_id: int) -> int | None:
        """Takes the next token; the length of the phrase when the text is in a loop, else None."""
        self._runs = np.where(self._recent == token_id, self._runs + 1, 0)
        self._recent = np.concatenate(([token_id], self._recent[:-1]))
        looping = self._runs >= _ENOUGH
        return int(_LENGTHS[looping.argmax()]) if looping.any() else None
