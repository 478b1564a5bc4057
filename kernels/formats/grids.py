"""The grids of the IQ types: fixed rows of four or eight small numbers.

They are data of the formats. They come from the `gguf` package, on first use: importing it takes
a while.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

Grid = npt.NDArray[np.int8]


@cache
def grid(name: str) -> Grid:
    """All rows of the grid of the format `name`."""
    from gguf import quants

    owner = getattr(quants, name)
    owner.init_grid()
    return np.array(owner.grid[0, 0], np.int8)
