"""AWQ: codes of four bits packed along columns of the output, in an order of their own.

    qweight  int32 (columns, rows / 8)
    qzeros   int32 (groups, rows / 8)
    scales   f16 (groups, rows)

The nibbles of a word, low bits first, are of rows 0, 2, 4, 6, 1, 3, 5, 7 of eight.
Source: Lin et al. 2023, and AutoAWQ's packing ("gemm").
"""

from collections.abc import Iterator

import numpy as np

from edgellm.convert.packings.integers import Codes, Companions, by_columns
from edgellm.convert.packings.packed import Packed, numbers, origin
from edgellm.convert.weight import Indices, Weight
from edgellm.errors import GGUFError

_SHIFTS = np.array([0, 16, 4, 20, 8, 24, 12, 28], np.uint32)  # of rows 0 to 7
_BITS = 4


def weights(packed: Packed) -> Iterator[tuple[str, Weight]]:
    """The matrices of the model."""
    if packed.integer("bits", packed.integer("w_bit", 4)) != _BITS:
        raise packed.refuse("bits", packed.config.get("bits"), "4")
    version = str(packed.config.get("version", "gemm")).lower()
    if version != "gemm":
        raise packed.refuse("version", version, "gemm")
    for prefix in packed.names(".qweight"):
        yield f"{prefix}.weight", _weight(packed, prefix)


def _weight(packed: Packed, prefix: str) -> Weight:
    stored = packed.take(f"{prefix}.qweight")
    if len(stored.shape) != 2 or stored.dtype != "I32":
        raise GGUFError(f"{origin(stored)} is {stored.dtype} {stored.shape}, expected I32 codes")
    columns, rows = stored.shape[0], stored.shape[1] * 8
    beside = Companions(packed.take(f"{prefix}.scales"), packed.take(f"{prefix}.qzeros"), None)
    words, every = numbers(stored), np.arange(rows)
    return by_columns(
        stored,
        (rows, columns),
        _BITS,
        lambda indices: _codes(words, indices),
        lambda zeros: _codes(zeros, every).T,
        beside,
    )


def _codes(words: np.ndarray, rows: Indices) -> Codes:
    """uint8 (rows, columns or groups)."""
    chosen = words[:, rows // 8].view(np.uint32) >> _SHIFTS[rows % 8]
    return np.ascontiguousarray((chosen & 15).astype(np.uint8).T)
