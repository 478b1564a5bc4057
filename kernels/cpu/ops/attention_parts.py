"""What the tiles of a part of a context leave for whoever merges them.

A slot for each tile and row: a line with its maximum and its sum, then its output.
"""

import numpy as np

from edgellm.kernels.cpu.layout import LINE
from edgellm.kernels.cpu.ops.attention_tile import MAXIMA_AT, OUTPUT_ROWS_AT, SUMS_AT
from edgellm.kernels.cpu.ops.common import inline
from edgellm.kernels.cpu.simd import pointer

LINE_FLOATS = LINE // 4


@inline
def bytes_of_slot(width):
    """width: floats of an output."""
    return LINE * (1 + (width + LINE_FLOATS - 1) // LINE_FLOATS)


@inline
def use_slots(scratch, rows, slots, slot_bytes):
    """Has the rows of a tile put their outputs to slots, `slot_bytes` apart."""
    outputs = pointer(scratch + OUTPUT_ROWS_AT, np.int64)
    for row in range(rows):
        outputs[row] = slots + row * slot_bytes + LINE


def _make_moved(is_kept):
    @inline
    def moved(scratch, rows, slots, slot_bytes):
        """The maxima and sums of a tile's rows between scratch and the fronts of their slots."""
        maxima = pointer(scratch + MAXIMA_AT, np.float32)
        sums = pointer(scratch + SUMS_AT, np.float32)
        for row in range(rows):
            kept = pointer(slots + row * slot_bytes, np.float32)
            if is_kept:
                kept[0], kept[1] = maxima[row], sums[row]
            else:
                maxima[row], sums[row] = kept[0], kept[1]

    return moved


keep_tile, take_tile = _make_moved(True), _make_moved(False)
