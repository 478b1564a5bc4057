"""Sixteen signed values for a four-bit code, and how codes become values.

The values are data of the formats: IQ4 from `ggml-common.h` of llama.cpp (`kvalues_iq4nl`), E2M1
from the OCP Microscaling Formats specification 1.0, doubled so that all are integers.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Codebook = npt.NDArray[np.int8]

IQ4: Codebook = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8
)
E2M1: Codebook = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)


def translate8(word: int, values: Any) -> int:
    """The eight codes of `word` (see `words.py`), each 0..15, replaced by their values.

    A compiling backend may put a byte shuffle in its place.
    """
    result = 0
    for shift in range(0, 64, 8):
        result |= (int(values[word >> shift & 15]) & 255) << shift
    return result
