"""The best logits of each row as a device leaves them (source/best.cl), for the host to read."""

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Keys = npt.NDArray[np.uint64]


def ids_of(keys: Keys) -> npt.NDArray[np.int32]:
    """The token id of each key."""
    return (~keys).astype(np.uint32).view(np.int32)


def logits_of(keys: Keys) -> Float32:
    """The logit of each key; a zero has lost its sign."""
    order = (keys >> np.uint64(32)).astype(np.uint32)
    bits = np.where(order >> 31, order ^ np.uint32(1 << 31), ~order)
    return bits.astype(np.uint32).view(np.float32)


class BestRows:
    """Rows of `width` logits, of which none but the best are known; the others are -inf.

    They are made once and filled again and again, so they are valid until the next call.
    """

    def __init__(self, width: int) -> None:
        self._rows = np.empty((0, width), np.float32)
        self._filled = np.empty((0, 0), np.int32)

    def fill(self, keys: Keys) -> Float32:
        """keys: (rows, candidates); 0 is none."""
        filled = len(self._filled)
        np.put_along_axis(self._rows[:filled], self._filled, -np.inf, axis=1)
        if len(keys) > len(self._rows):
            self._rows = np.full((len(keys), self._rows.shape[1]), -np.inf, np.float32)
        rows = self._rows[: len(keys)]
        known = np.where(keys, keys, keys[:, :1])  # a row may have fewer numbers than candidates
        self._filled = ids_of(known)
        np.put_along_axis(rows, self._filled, logits_of(known), axis=1)
        return rows
