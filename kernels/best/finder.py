"""The compiled kernel, stored beside those of the cpu backend, and the call of it."""

import ctypes
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgellm.kernels.cpu.layout import BEST_GROUP
from edgellm.kernels.cpu.objects import Library
from edgellm.kernels.draw import MOST_SOUGHT

# Unlike what runs a step, this keeps the interpreter's lock: it is over before others could use it.
_KERNEL = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_KEY = ("best",)


class BestLogits:
    """Finds the best logits of one row after another; not for two threads at once.

    cache_root: where compiled kernels are kept.
    """

    def __init__(self, cache_root: Path | None) -> None:
        self._library = Library(cache_root)  # keeps the code
        self._library.load([_KEY])
        self._kernel = _KERNEL(self._library.address(_KEY))
        self._values = np.zeros(MOST_SOUGHT + 1, np.float32)
        self._ids = np.zeros(MOST_SOUGHT, np.int64)
        self._tops = np.zeros(0, np.float32)
        self._args = np.zeros(6, np.int64)
        self._args[3:5] = self._values.ctypes.data, self._ids.ctypes.data
        self._place = self._args.ctypes.data

    def __call__(
        self, logits: npt.NDArray[np.float32], count: int
    ) -> tuple[list[float], list[int]] | None:
        """The `count` (1 to MOST_SOUGHT) largest of (n,), or all, and where they are: best first,
        of equals the first. None where some are no finite numbers, or do not lie side by side."""
        count = min(count, len(logits))
        if logits.strides != (4,) or logits.dtype != np.float32:
            return None
        args = self._args
        if len(logits) // BEST_GROUP > len(self._tops):
            self._tops = np.zeros(len(logits) // BEST_GROUP, np.float32)
            args[5] = self._tops.ctypes.data
        args[0], args[1], args[2] = logits.__array_interface__["data"][0], len(logits), count
        self._kernel(self._place, None, 0, 1)
        values = self._values[: count + 1].tolist()
        if values.pop() != 0.0:
            return None
        return values, self._ids[:count].tolist()
