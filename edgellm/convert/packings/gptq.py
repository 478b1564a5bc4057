"""GPTQ: codes packed along columns of the input, zeros along those of the output.

    qweight  int32 (columns * bits / 32, rows)     32 / bits codes in each, low bits first
    qzeros   int32 (groups, rows * bits / 32)      less one in the first version of the format
    scales   f16 (groups, rows)
    g_idx    int32 (columns)                       the group of a column

Columns that were sorted by their importance (`desc_act`) have groups that lie scattered; these are
decoded unless each 32 columns are of one. Source: Frantar et al. 2022, and AutoGPTQ's packing.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from edgellm.convert.packings.integers import Companions, bit_fields, by_columns
from edgellm.convert.packings.packed import Packed, numbers, origin, shaped
from edgellm.convert.weight import Indices, Weight
from edgellm.errors import GGUFError

_BITS = (2, 3, 4, 8)


def weights(packed: Packed) -> Iterator[tuple[str, Weight]]:
    """The matrices of the model."""
    bits = packed.integer("bits", 4)
    if bits not in _BITS:
        raise packed.refuse("bits", bits, "2, 3, 4 or 8")
    layout = packed.config.get("checkpoint_format", "gptq")
    if layout not in ("gptq", "gptq_v2"):
        raise packed.refuse("checkpoint_format", layout, "gptq or gptq_v2")
    for prefix in packed.names(".qweight"):
        yield f"{prefix}.weight", _weight(packed, prefix, bits, 1 if layout == "gptq" else 0)


def _weight(packed: Packed, prefix: str, bits: int, missing: int) -> Weight:
    stored = packed.take(f"{prefix}.qweight")
    if len(stored.shape) != 2 or stored.dtype != "I32" or stored.shape[0] * 32 % bits:
        raise GGUFError(f"{origin(stored)} is {stored.dtype} {stored.shape}, expected I32 codes")
    columns, rows = stored.shape[0] * 32 // bits, stored.shape[1]
    beside = Companions(
        packed.take(f"{prefix}.scales"),
        packed.take(f"{prefix}.qzeros"),
        _groups(packed, prefix, columns),
    )
    words = numbers(stored)

    def zeros(packed_zeros: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        # A stored zero may be one less and wrap: -1 is 2^bits - 1.
        fields = bit_fields(packed_zeros, bits, rows).astype(np.int32) + missing
        return np.where(fields == 1 << bits, 0, fields) if bits != 8 else fields & 0xFF

    return by_columns(
        stored,
        (rows, columns),
        bits,
        lambda indices: bit_fields(words[:, indices].T, bits, columns),
        zeros,
        beside,
    )


def _groups(packed: Packed, prefix: str, columns: int) -> Indices:
    stored = packed.tensors.pop(f"{prefix}.g_idx", None)
    if stored is None:
        size = packed.integer("group_size", -1)
        return np.arange(columns) // (columns if size < 1 else size)
    groups = numbers(shaped(stored, (columns,), ("I32", "I64")))
    return np.asarray(groups, np.intp)
