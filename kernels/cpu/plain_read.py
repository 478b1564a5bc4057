"""Reads memory with all threads and does nothing else: the roofline of what needs those bytes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgellm.kernels.cpu import layout
from edgellm.kernels.cpu.objects import Library
from edgellm.kernels.cpu.team import Team

_KEY = ("read",)


class PlainRead:
    """A read of `arrays` by a thread team of its own.

    Whole lines of 64 bytes are read, what is left at an array's end is not. cache_root: where
    compiled kernels are kept. threads: None is all that may be used.
    """

    def __init__(
        self,
        arrays: Sequence[npt.NDArray[np.uint8]],
        cache_root: Path | None,
        threads: int | None = None,
    ) -> None:
        if not all(array.flags.c_contiguous for array in arrays):
            raise ValueError("only memory without gaps can be read")
        self._arrays = tuple(arrays)  # keeps them alive
        library = Library(cache_root)
        library.load([_KEY])
        self._team = Team(library, threads)
        self._ranges = np.array(
            [(a.ctypes.data, a.nbytes // layout.LINE) for a in arrays], np.int64
        )
        self._sums = np.zeros(self._team.threads, np.int64)
        self._table = np.zeros((1, layout.OP_WORDS), np.int64)
        self._table[0, :4] = (
            library.address(_KEY),
            self._ranges.ctypes.data,
            len(self._ranges),
            self._sums.ctypes.data,
        )
        self._table[0, layout.WAIT] = 1  # run returns when all threads have read
        self._step = np.zeros(layout.STEP_WORDS, np.int64)

    @property
    def num_bytes(self) -> int:
        """What one run reads."""
        return layout.LINE * int(self._ranges[:, 1].sum())

    def run(self) -> int:
        """Reads everything once; the sum of all int32 words, modulo 2 ** 32."""
        self._team.run(self._table.ctypes.data, len(self._table), self._step.ctypes.data)
        return int(self._sums.sum()) % (1 << 32)

    def close(self) -> None:
        """Ends the threads."""
        self._team.close()
