"""Memory that vector code may use with aligned reads."""

import numpy as np
import numpy.typing as npt

_HUGE_PAGE = 1 << 21


def aligned_bytes(size: int) -> npt.NDArray[np.uint8]:
    """uint8 (size,) that starts on a huge page's border; untouched pages take no room."""
    raw = np.empty(size + _HUGE_PAGE, np.uint8)
    skip = -raw.ctypes.data % _HUGE_PAGE
    return raw[skip : skip + size]
