"""What `unpack` functions may call for a single number.

Runs as plain Python; a compiling backend puts its own instruction in its place.
"""

import numpy as np


def half(low: int, high: int) -> float:
    """The IEEE half whose little-endian bytes are `low`, `high`, as a float32."""
    return float(np.frombuffer(bytes((low, high)), np.float16)[0])
