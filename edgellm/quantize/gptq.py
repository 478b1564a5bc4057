"""Rounding that makes up for each weight's error in those after it (GPTQ, Frantar et al. 2022).

What counts is the error of a matrix's products with inputs that it really gets: W H W' with their
second moments H. Column by column a weight is rounded, and what that changes is taken back, as far
as it can be, by the columns that are not rounded yet: along the rows of the Cholesky factor of the
inverse of H. A block's scales are fitted when its first column comes. Knows no files.
"""

import numpy as np
import numpy.typing as npt

from edgellm.kernels.formats import Format
from edgellm.kernels.formats.format import Blocks, Values
from edgellm.kernels.formats.search import inverse

_PANEL = 128  # columns whose errors are spread to all others at once, or one block if that is more
_DAMPING = 0.01  # of the mean of H's diagonal, added to it


def compensated(values: Values, moments: npt.NDArray[np.float32], fmt: Format) -> Blocks:
    """float32 (rows, columns) -> uint8 (rows, row bytes). moments: (columns, columns), X'X.

    ValueError for a type whose weights cannot be rounded one by one, and for values or moments
    that are not finite.
    """
    rounding, size = fmt.rounding, fmt.block_size
    if rounding is None:
        raise ValueError(f"weights of {fmt.name} cannot be rounded one by one")
    if not (np.isfinite(values).all() and np.isfinite(moments).all()):
        raise ValueError("cannot quantise: a block holds NaN, infinity or values beyond its range")
    rows, columns = values.shape
    factor = _inverse_factor(moments)
    diagonal = np.diag(moments)
    importance = np.maximum(diagonal / max(float(diagonal.max()), 1e-30), 1e-5).astype(np.float32)
    left = np.array(values.T, np.float32, order="C")  # a column's weights lie together
    panel = max(size, _PANEL // size * size)
    blocks = np.empty((rows, columns // size, fmt.type_size), np.uint8)
    for start in range(0, columns, panel):
        end = min(start + panel, columns)
        errors = np.empty((end - start, rows), np.float32)
        for first in range(start, end, size):
            own = np.ascontiguousarray(left[first : first + size].T)
            weights = np.broadcast_to(importance[first : first + size], own.shape)
            with np.errstate(all="ignore"):  # of quotients by zero, which count as zero
                scales = rounding.fit(own, weights)
            group = size // scales.steps.shape[1]
            levels = np.empty((rows, size), np.float32)
            for at in range(size):
                column = first + at
                step, offset = scales.steps[:, at // group], scales.offsets[:, at // group]
                level = rounding.nearest((left[column] - offset) * inverse(step))
                levels[:, at] = level
                error = (left[column] - step * level - offset) / factor[column, column]
                errors[column - start] = error
                left[column + 1 : end] -= factor[column, column + 1 : end, None] * error
            blocks[:, first // size] = rounding.pack(scales, levels)
        left[end:] -= factor[start:end, end:].T @ errors
    return blocks.reshape(rows, -1)


def _inverse_factor(moments: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The upper factor U of the inverse, U'U, of moments made invertible."""
    damped = moments.astype(np.float64)
    mean = float(np.diag(damped).mean()) or 1.0
    damping = _DAMPING * mean
    while True:
        try:
            damped[np.diag_indices_from(damped)] += damping
            lower = np.linalg.cholesky(np.linalg.inv(damped))
            return np.ascontiguousarray(lower.T, np.float32)
        except np.linalg.LinAlgError:
            damping *= 10
