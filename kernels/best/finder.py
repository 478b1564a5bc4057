"""The compiled kernel, stored beside those of the cpu backend, and the call of it."""

import ctypes
import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgellm.kernels.best.layout import GROUP, MOST
from edgellm.kernels.cpu.objects import Library, Source

# Unlike what runs a step, this keeps the interpreter's lock: it is over before others could use it.
_KERNEL = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def _source() -> Source:
    from edgellm.kernels.best.kernel import make_best

    return Source(lambda key: make_best(), {})


class BestLogits:
    """Finds the best logits of one row after another; not for two threads at once.

    cache_root: where compiled kernels are kept.
    """

    def __init__(self, cache_root: Path | None) -> None:
        key = ("best", _source_hash())  # a name that tells its source
        self._library = Library(cache_root, find_source=_source)  # keeps the code
        self._library.load([key])
        self._kernel = _KERNEL(self._library.address(key))
        self._values = np.zeros(MOST + 1, np.float32)
        self._ids = np.zeros(MOST, np.int64)
        self._tops = np.zeros(0, np.float32)
        self._args = np.zeros(6, np.int64)
        self._args[3:5] = self._values.ctypes.data, self._ids.ctypes.data
        self._place = self._args.ctypes.data

    def __call__(
        self, logits: npt.NDArray[np.float32], count: int
    ) -> tuple[list[float], list[int]] | None:
        """The `count` (1 to MOST) largest of (n,), or all, and where they are: best first, of
        equals the first. None where some are no finite numbers, or do not lie side by side."""
        count = min(count, len(logits))
        if logits.strides != (4,) or logits.dtype != np.float32:
            return None
        args = self._args
        if len(logits) // GROUP > len(self._tops):
            self._tops = np.zeros(len(logits) // GROUP, np.float32)
            args[5] = self._tops.ctypes.data
        args[0], args[1], args[2] = logits.__array_interface__["data"][0], len(logits), count
        self._kernel(self._place, None, 0, 1)
        values = self._values[: count + 1].tolist()
        if values.pop() != 0.0:
            return None
        return values, self._ids[:count].tolist()


def _source_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
