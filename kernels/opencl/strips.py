"""How weights lie on a device: strips of rows, side by side block by block.

Within a strip of `strip_rows` rows the record of block b follows that of block b - 1. A record
holds word 0 of every row's block, then word 1 of every row's, and so on; last the one or two bytes
of each that are no whole word. Work-items with neighbouring rows so read neighbouring words. Rows
that are missing in the last strip are zeros. Knows nothing of OpenCL.
"""

import numpy as np
import numpy.typing as npt

from edgellm.kernels.formats import Format

Bytes = npt.NDArray[np.uint8]

# Formats whose scale comes after what it scales: their odd bytes are their last, not their first.
_SCALE_LAST = frozenset({"Q3_K", "Q6_K", "TQ1_0", "TQ2_0"})


def to_strips(fmt: Format, data: Bytes, strip_rows: int) -> Bytes:
    """uint8 (rows, row_bytes) -> uint8 (strips, strip bytes)."""
    rows, row_bytes = data.shape
    strips = -(-rows // strip_rows)
    blocks = row_bytes // fmt.type_size
    odd = fmt.type_size % 4
    words = fmt.type_size - odd
    result = np.zeros((strips, blocks, fmt.type_size * strip_rows), np.uint8)
    first_word = 0 if fmt.name in _SCALE_LAST else odd
    first_odd = words if fmt.name in _SCALE_LAST else 0
    for s in range(strips):
        part = data[s * strip_rows : (s + 1) * strip_rows]
        records = part.reshape(len(part), blocks, fmt.type_size).swapaxes(0, 1)
        whole = result[s, :, : words * strip_rows].reshape(blocks, words // 4, strip_rows, 4)
        source = records[:, :, first_word : first_word + words]
        whole[:, :, : len(part)] = source.reshape(blocks, len(part), -1, 4).swapaxes(1, 2)
        if odd:
            rest = result[s, :, words * strip_rows :].reshape(blocks, strip_rows, odd)
            rest[:, : len(part)] = records[:, :, first_odd : first_odd + odd]
    return result.reshape(strips, -1)
