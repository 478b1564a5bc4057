"""compressed-tensors: each tensor as its own companions tell.

    weight_packed int32 (rows, columns * bits / 32), weight_shape    codes, signed by an offset
        weight_scale (rows, groups), weight_zero_point, weight_g_idx
    weight_packed uint8 (rows, columns / 2), weight_scale e4m3 (rows, columns / 16),
        weight_global_scale (1)                                      NVFP4
    weight_packed uint8 (rows, columns / 2), weight_scale uint8 (rows, columns / 32)    MXFP4
    weight int8, weight_scale                                        a scale for each row, or one
    weight e4m3, weight_scale                                        as fp8

Source: github.com/vllm-project/compressed-tensors.
"""

from collections.abc import Iterator

import numpy as np

from edgellm.convert.packings import fp8
from edgellm.convert.packings.integers import Grid, Zeros, bit_fields, weight_of
from edgellm.convert.packings.mxfp4 import packed_blocks
from edgellm.convert.packings.nvfp4 import nvfp4_weights
from edgellm.convert.packings.packed import Packed, floats, numbers, origin, shaped
from edgellm.convert.safetensors import Stored
from edgellm.convert.weight import Weight, from_floats
from edgellm.errors import GGUFError

_FORMATS = (
    *("pack-quantized", "int-quantized", "naive-quantized", "float-quantized", "dense"),
    *("nvfp4-pack-quantized", "mxfp4-pack-quantized", "mixed-precision"),
)


def weights(packed: Packed) -> Iterator[tuple[str, Weight]]:
    """The matrices of the model."""
    groups = packed.config.get("config_groups")
    parts = [packed.config, *(groups.values() if isinstance(groups, dict) else ())]
    for name in (part.get("format") or "dense" for part in parts if isinstance(part, dict)):
        if name not in _FORMATS:
            raise packed.refuse("format", name, f"one of {', '.join(_FORMATS)}")
    for prefix in packed.names(".weight_packed"):
        stored = packed.take(f"{prefix}.weight_packed")
        if stored.dtype == "I32":
            yield f"{prefix}.weight", _integers(packed, prefix, stored)
        elif f"{prefix}.weight_global_scale" in packed.tensors:
            yield from nvfp4_weights(packed, prefix, stored, "weight_global_scale", divides=True)
        else:
            yield f"{prefix}.weight", _mxfp4(packed, prefix, stored)
    for prefix in packed.names(".weight_scale"):
        matrix = packed.tensors.get(f"{prefix}.weight")
        if matrix is not None and matrix.dtype == "I8":
            yield f"{prefix}.weight", _rows(packed, prefix)
    yield from fp8.weights(packed)
    for suffix in (".input_global_scale", ".input_zero_point", ".output_scale"):
        packed.drop(*(f"{prefix}{suffix}" for prefix in packed.names(suffix)))


def _integers(packed: Packed, prefix: str, stored: Stored) -> Weight:
    size = numbers(shaped(packed.take(f"{prefix}.weight_shape"), (2,), ("I64", "I32")))
    rows, columns = (int(n) for n in size)
    bits = _bits(stored, columns)
    shaped(stored, (rows, -(-columns * bits // 32)))
    scale = numbers(packed.take(f"{prefix}.weight_scale"))
    num_groups = 1 if scale.size == 1 else scale.size // max(1, rows)
    if scale.size not in (1, rows * num_groups) or not num_groups or columns % num_groups:
        raise GGUFError(f"{origin(stored)}: scales of shape {scale.shape} do not fit {size}")
    factors = np.broadcast_to(scale.reshape(-1, num_groups), (rows, num_groups))
    zeros = np.broadcast_to(np.uint8(1 << bits - 1), (rows, num_groups))
    if f"{prefix}.weight_zero_point" in packed.tensors:
        given = packed.take(f"{prefix}.weight_zero_point")
        shaped(given, (-(-rows * bits // 32), num_groups), ("I32",))
        zeros = bit_fields(numbers(given).T, bits, rows).T
    groups = np.arange(columns) // (columns // num_groups)
    if f"{prefix}.weight_g_idx" in packed.tensors:
        groups = numbers(shaped(packed.take(f"{prefix}.weight_g_idx"), (columns,))).astype(np.intp)
        if groups.min() < 0 or groups.max() >= num_groups:
            raise GGUFError(f"{origin(stored)}: columns are of groups that have no scale")
    words = numbers(stored)
    return weight_of(
        Grid(
            origin(stored),
            (rows, columns),
            bits,
            lambda indices: bit_fields(words[indices], bits, columns),
            lambda indices: np.asarray(factors[indices], np.float32),
            Zeros(zeros),
            groups,
        )
    )


def _bits(stored: Stored, columns: int) -> int:
    """Of a code, by how many words a row takes."""
    words = stored.shape[-1] if len(stored.shape) == 2 else 0
    for bits in (4, 8, 2, 3):
        if columns > 0 and words == -(-columns * bits // 32):
            return bits
    raise GGUFError(f"{origin(stored)} has the shape {stored.shape}, expected codes of {columns}")


def _rows(packed: Packed, prefix: str) -> Weight:
    """Eight bits with a scale for each row, or for all."""
    stored = packed.take(f"{prefix}.weight")
    scale = packed.take(f"{prefix}.weight_scale")
    if f"{prefix}.weight_zero_point" in packed.tensors:
        if floats(packed.take(f"{prefix}.weight_zero_point")).any():
            raise GGUFError(f"{origin(stored)} has zero points, which are not known here")
    if len(stored.shape) != 2 or scale.shape not in ((stored.shape[0], 1), (1,), (), (1, 1)):
        raise GGUFError(f"{origin(stored)} {stored.shape} has scales of shape {scale.shape}")
    codes = numbers(stored)
    factors = np.broadcast_to(floats(scale).reshape(-1, 1), (stored.shape[0], 1))
    packed.drop(f"{prefix}.input_scale")
    return from_floats(
        origin(stored), stored.shape, "BF16", lambda rows: codes[rows] * factors[rows]
    )


def _mxfp4(packed: Packed, prefix: str, stored: Stored) -> Weight:
    """Blocks as GGUF's MXFP4 has them."""
    if len(stored.shape) != 2 or stored.dtype != "U8" or stored.shape[1] % 16:
        raise GGUFError(
            f"{origin(stored)} is {stored.dtype} {stored.shape}, expected pairs of codes, a "
            "multiple of 32 in a row"
        )
    rows, per_row = stored.shape[0], stored.shape[1] // 16
    scales = shaped(packed.take(f"{prefix}.weight_scale"), (rows, per_row), ("U8", "F8_E8M0"))
    blocks = numbers(stored).reshape(rows, per_row, 16)
    exponents = numbers(scales).reshape(rows, per_row, 1)
    return Weight(
        origin(stored),
        (rows, per_row * 32),
        "MXFP4",
        "MXFP4",
        lambda indices: packed_blocks(blocks[indices], exponents[indices]),
    )
