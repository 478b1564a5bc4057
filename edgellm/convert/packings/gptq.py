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

from edgellm.convert.packings.integers import Grid, Zeros, bit_fields, weight_of
from edgellm.convert.packings.packed import Packed, numbers, origin, shaped
from edgellm.convert.weight import Weight
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
    scales = packed.take(f"{prefix}.scales")
    num_groups = scales.shape[0]
    shaped(scales, (num_groups, rows))
    qzeros = shaped(packed.take(f"{prefix}.qzeros"), (num_groups, rows * bits // 32), ("I32",))
    groups = _groups(packed, prefix, columns, num_groups)
    # A stored zero may be one less and wrap: -1 is 2^bits - 1.
    fields = bit_fields(numbers(qzeros), bits, rows).astype(np.int32) + missing
    zeros = np.where(fields == 1 << bits, 0, fields) if bits != 8 else fields & 0xFF
    words, factors = numbers(stored), numbers(scales)
    return weight_of(
        Grid(
            origin(stored),
            (rows, columns),
            bits,
            lambda indices: bit_fields(words[:, indices].T, bits, columns),
            lambda indices: np.asarray(factors[:, indices].T, np.float32),
            Zeros(zeros.T),
            groups,
        )
    )


def _groups(packed: Packed, prefix: str, columns: int, count: int) -> np.ndarray:
    stored = packed.tensors.pop(f"{prefix}.g_idx", None)
    if stored is None:
        size = packed.integer("group_size", -1)
        groups = np.arange(columns) // (columns if size < 1 else size)
    else:
        groups = numbers(shaped(stored, (columns,), ("I32", "I64"))).astype(np.intp)
    if groups.min() < 0 or groups.max() >= count:
        raise GGUFError(
            f"{packed.folder}: {prefix}: columns are of groups up to {groups.max()}, and scales "
            f"are there for {count}"
        )
    return groups
