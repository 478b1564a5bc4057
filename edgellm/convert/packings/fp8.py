"""Eight-bit floats with scales: one for a tensor, a row, or a block of 128 x 128.

Sources: Micikevicius et al. 2022 (E4M3, E5M2); DeepSeek-AI 2024 (DeepSeek-V3), blocks.
"""

from collections.abc import Callable, Iterator
from math import prod

import numpy as np
import numpy.typing as npt

from edgellm.convert.packings.packed import Packed, floats, numbers, origin
from edgellm.convert.safetensors import Stored
from edgellm.convert.weight import Indices, Values, Weight, from_floats
from edgellm.errors import GGUFError


def _table(exponent_bits: int, mantissa_bits: int, largest: int | None) -> Values:
    """Of all codes. largest: those above are infinite or no numbers; None: one code is none."""
    code = np.arange(128)
    bias = (1 << exponent_bits - 1) - 1
    exponent, mantissa = code >> mantissa_bits, code & (1 << mantissa_bits) - 1
    whole = np.where(exponent > 0, mantissa + (1 << mantissa_bits), mantissa).astype(np.float64)
    values = np.ldexp(whole, np.maximum(exponent, 1) - bias - mantissa_bits)
    values[127 if largest is None else largest + 1 :] = np.nan
    return np.concatenate([values, -values]).astype(np.float32)


E4M3 = _table(4, 3, None)
E5M2 = _table(5, 2, 0x7B)
TABLES = {"F8_E4M3": E4M3, "F8_E5M2": E5M2}
_SCALES = (".weight_scale_inv", ".weight_scale")


def weights(packed: Packed) -> Iterator[tuple[str, Weight]]:
    """The matrices of the model, to be written as BF16."""
    for name in [name for name, stored in packed.tensors.items() if stored.dtype in TABLES]:
        stored = packed.take(name)
        prefix = name.removesuffix(".weight")
        found = [f"{prefix}{suffix}" for suffix in _SCALES if f"{prefix}{suffix}" in packed.tensors]
        if not found:
            found = [f"{name}{end}" for end in ("_scale_inv", "_scale")]
            found = [scale for scale in found if scale in packed.tensors]
        if not found:
            raise GGUFError(f"{origin(stored)} is {stored.dtype} and has no scale")
        scale = packed.take(found[0])
        packed.drop(*(f"{prefix}.{other}_scale" for other in ("input", "output", "k", "v")))
        yield name, scaled(stored, floats(scale), origin(scale), _block(packed))
    for suffix in (".input_scale", ".k_scale", ".v_scale", ".activation_scale"):
        packed.drop(*(f"{prefix}{suffix}" for prefix in packed.names(suffix)))


def _block(packed: Packed) -> tuple[int, int]:
    """The rows and columns that share a scale, where scales are for blocks."""
    for name in ("weight_block_size", "block_structure"):
        given = packed.config.get(name)
        if given is None:
            continue
        if isinstance(given, list) and len(given) == 2:
            height, width = given
            if type(height) is type(width) is int and min(height, width) > 0:
                return height, width
        raise packed.refuse(name, given, "two whole numbers above zero")
    return 128, 128


def unscaled(stored: Stored) -> Weight:
    """A tensor that was saved in eight bits as it is, without any scale."""
    table, columns = TABLES[stored.dtype], stored.shape[-1] if len(stored.shape) > 1 else 1
    flat = numbers(stored).reshape(-1, columns)
    return from_floats(origin(stored), stored.shape, "BF16", lambda rows: table[flat[rows]])


def scaled(
    stored: Stored, scale: npt.NDArray[np.float32], scale_origin: str, block: tuple[int, int]
) -> Weight:
    """values * scale, the scale being for all, for rows or for blocks of (rows, columns)."""
    if len(stored.shape) < 2:
        raise GGUFError(f"{origin(stored)} has the shape {stored.shape}, expected a matrix")
    table, columns = TABLES[stored.dtype], stored.shape[-1]
    flat = numbers(stored).reshape(-1, columns)
    factors = _factors(stored, scale, scale_origin, block)
    return from_floats(
        origin(stored), stored.shape, "BF16", lambda rows: table[flat[rows]] * factors(rows)
    )


def _factors(
    stored: Stored, scale: npt.NDArray[np.float32], scale_origin: str, block: tuple[int, int]
) -> Callable[[Indices], Values]:
    """What rows are multiplied with, (indices, columns) or (indices, 1)."""
    *outer, rows, columns = stored.shape
    if scale.size == 1:
        return lambda indices: scale.reshape(1, 1)
    if scale.size == prod(outer) * rows and scale.shape[-1] != columns:
        return lambda indices: scale.reshape(-1, 1)[indices]
    height, width = block
    blocks = (*outer, -(-rows // height), -(-columns // width))
    if scale.shape != blocks:
        raise GGUFError(
            f"{scale_origin} has the shape {scale.shape}, expected {blocks}: a scale for each "
            f"{height} x {width} of {stored.shape}"
        )
    flat, across = scale.reshape(-1, blocks[-1]), np.arange(columns) // width

    def of_rows(indices: Indices) -> Values:
        matrix, row = indices // rows, indices % rows
        found: Values = flat[matrix * blocks[-2] + row // height][:, across]
        return found

    return of_rows
