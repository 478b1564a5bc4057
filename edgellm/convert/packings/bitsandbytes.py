"""bitsandbytes: four bits by a table of 16 values, or eight bits with a scale for each row.

    weight                              uint8 (rows * columns / 2, 1), high nibble first
    weight.absmax                       f32 of each block, or uint8 codes of them (nested)
    weight.quant_map                    f32 (16)
    weight.nested_absmax, ..quant_map   f32, of the codes
    weight.quant_state.bitsandbytes__*  JSON: shape, blocksize, dtype, nested_...

    weight, SCB                         int8 (rows, columns), f32 (rows): weight * SCB / 127

Sources: Dettmers et al. 2022 (LLM.int8), 2023 (QLoRA: NF4 and double quantisation).
"""

import json
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from edgellm.convert.packings.packed import Packed, floats, numbers, origin, shaped
from edgellm.convert.safetensors import Stored
from edgellm.convert.weight import Indices, Values, Weight, from_floats
from edgellm.errors import GGUFError

_STATE = ".quant_state.bitsandbytes__"
_NATURAL = {"float16": "F16", "bfloat16": "BF16", "float32": "F32"}


def weights(packed: Packed) -> Iterator[tuple[str, Weight]]:
    """The matrices of the model, to be written in the type that they were quantised from."""
    for state in [name for name in packed.tensors if _STATE in name]:
        name = state.split(_STATE)[0]
        yield name, _four_bits(packed, name, state)
    for prefix in packed.names(".SCB"):
        yield f"{prefix}.weight", _eight_bits(packed, prefix)


def _eight_bits(packed: Packed, prefix: str) -> Weight:
    stored = packed.take(f"{prefix}.weight")
    packed.drop(f"{prefix}.weight_format", f"{prefix}.weight_format.weight")
    if stored.dtype != "I8" or len(stored.shape) != 2:
        raise GGUFError(f"{origin(stored)} is {stored.dtype} {stored.shape}, expected an I8 matrix")
    scales = floats(shaped(packed.take(f"{prefix}.SCB"), stored.shape[:1])) / np.float32(127)
    codes = numbers(stored)
    return from_floats(
        origin(stored), stored.shape, "F16", lambda rows: codes[rows] * scales[rows, None]
    )


def _four_bits(packed: Packed, name: str, state_name: str) -> Weight:
    state = _state(packed.take(state_name))
    stored = packed.take(name)
    shape, size = tuple(state["shape"]), int(state["blocksize"])
    count = prod(shape)
    shaped(stored, (-(-count // 2), 1), ("U8",))
    if len(shape) < 2 or shape[-1] % 2:
        raise GGUFError(f"{origin(stored)} stands for {shape}, expected even rows of a matrix")
    table = floats(shaped(packed.take(f"{name}.quant_map"), (16,)))
    peaks = _peaks(packed, name, state, -(-count // size))
    flat = stored.data.reshape(-1, shape[-1] // 2)
    columns = np.arange(shape[-1])

    def read(rows: Indices) -> Values:
        octets = flat[rows]
        codes = np.stack([octets >> 4, octets & 15], -1).reshape(len(rows), -1)
        blocks = (rows[:, None] * shape[-1] + columns) // size
        values: Values = table[codes] * peaks(blocks)
        return values

    natural = _NATURAL.get(str(state.get("dtype")), "F16")
    return from_floats(origin(stored), shape, natural, read)


def _peaks(
    packed: Packed, name: str, state: Mapping[str, Any], count: int
) -> Callable[[Indices], Values]:
    """The largest magnitude of blocks."""
    stored = shaped(packed.take(f"{name}.absmax"), (count,))
    if "nested_blocksize" not in state:
        plain = floats(stored)
        return lambda blocks: plain[blocks]
    size = int(state["nested_blocksize"])
    outer = shaped(packed.take(f"{name}.nested_absmax"), (-(-count // size),))
    table = floats(shaped(packed.take(f"{name}.nested_quant_map"), (256,)))
    codes = numbers(shaped(stored, (count,), ("U8",)))
    offset = np.float32(state.get("nested_offset", 0.0))
    factors = floats(outer)
    return lambda blocks: table[codes[blocks]] * factors[blocks // size] + offset


def _state(stored: Stored) -> Mapping[str, Any]:
    try:
        state = json.loads(stored.data.tobytes())
        sound = (
            all(type(size) is int and size > 0 for size in state["shape"])
            and state["blocksize"] > 0
            and state.get("nested_blocksize", 1) > 0
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise GGUFError(f"{origin(stored)} is no state of a tensor, with its shape and block size")
    found: Mapping[str, Any] = state
    return found
