"""How weights lie on a device: strips of rows, side by side block by block.

Within a strip of `strip_rows` rows the record of block b follows that of block b - 1. A record
holds word 0 of every row's block, then word 1 of every row's, and so on; last the one or two bytes
of each that are no whole word. Work-items with neighbouring rows so read neighbouring words. Rows
that are missing in the last strip are zeros.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from edgellm.kernels.formats import Format
from edgellm.kernels.opencl.context import Context, faults
from edgellm.kernels.opencl.sources import KernelKey

Bytes = npt.NDArray[np.uint8]

# Formats whose scale comes after what it scales: their odd bytes are their last, not their first.
_SCALE_LAST = frozenset({"Q3_K", "Q6_K", "TQ1_0", "TQ2_0"})
_PIECE = 32 << 20  # bytes that are copied at once, and then wait for the device to lay them out


def to_strips(context: Context, fmt: Format, matrices: Sequence[Bytes], what: str) -> Any:
    """A buffer with each of some equal matrices, uint8 (rows, row_bytes), in strips of its own.

    The device lays them out. what: their name, for errors.
    """
    rows, row_bytes = matrices[0].shape
    height, blocks = context.variant.strip_rows, row_bytes // fmt.type_size
    strips, most = -(-rows // height), max(1, _PIECE // (height * row_bytes)) * height
    result = context.room(len(matrices) * strips * height * row_bytes, what)
    piece = context.room(min(most, rows) * row_bytes, what)
    names = ("TYPE_SIZE", fmt.type_size), ("SCALE_LAST", int(fmt.name in _SCALE_LAST))
    kernel = context.kernel(KernelKey("strips", "to_strips", definitions=names))
    local = min(height, context.variant.items), 1
    with faults(f"the OpenCL device failed to take {what}"):
        for number, matrix in enumerate(matrices):
            for first in range(0, rows, most):
                part = np.ascontiguousarray(matrix[first : first + most])
                cl.enqueue_copy(context.queue, piece, part)
                sizes = -(-len(part) // height) * height, blocks
                place = number * strips + first // height
                numbers = map(np.int32, (len(part), blocks, place))
                kernel(context.queue, sizes, local, piece, result, *numbers)
    return result
