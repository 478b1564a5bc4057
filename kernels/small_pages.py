"""Zeroed memory of which little may ever be touched."""

import math
import mmap
import sys
from typing import Any

import numpy as np
import numpy.typing as npt


def zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Like numpy's, in the system's small pages.

    For large arrays numpy asks for pages of 2 MiB, each of which is resident whole once one byte of
    it is written. MemoryError when the system does not have the memory.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if not size:
        return np.zeros(shape, dtype)
    try:
        if sys.platform == "win32":
            room = mmap.mmap(-1, size)
        else:
            room = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError):
        raise MemoryError from None
    return np.frombuffer(room, dtype).reshape(shape)
