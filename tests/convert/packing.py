"""Ways to pack a matrix as published checkpoints have it, each with what it stands for.

Written from the descriptions of the formats, not from the code under test. Holds no tests.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.convert.checkpoints import Raw

Array = npt.NDArray[Any]
GROUP = 32
NF4 = np.array(
    [-1.0, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0.0]
    + [0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0],
    np.float32,
)
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


@dataclass(frozen=True, eq=False)
class Packing:
    """tensors: by what stands behind the matrix's name. values: what they stand for."""

    tensors: dict[str, Array | Raw]
    values: npt.NDArray[np.float32]
    more: dict[str, Any] = field(default_factory=dict)


def fields(codes: Array, bits: int) -> npt.NDArray[np.int32]:
    """Codes (rows, n) -> int32 (rows, n * bits / 32), low bits first."""
    flat = (codes[..., None].astype(np.uint8) >> np.arange(bits, dtype=np.uint8)) & 1
    octets = np.packbits(flat.reshape(len(codes), -1), axis=1, bitorder="little")
    return octets.view("<i4")


def grid(rows: int, columns: int, bits: int, symmetric: bool, rng: Any, group: int = GROUP) -> Any:
    """Codes, f16 scales and zeros (rows, groups)."""
    codes = rng.integers(0, 1 << bits, (rows, columns))
    groups = columns // group
    scales = rng.uniform(0.01, 0.1, (rows, groups)).astype(np.float16)
    middle = np.full((rows, groups), 1 << bits - 1)
    zeros = middle if symmetric else rng.integers(1, 1 << bits, (rows, groups))
    return codes, scales, zeros


def gptq(
    rows: int,
    columns: int,
    rng: Any,
    bits: int = 4,
    symmetric: bool = True,
    ordered: bool = False,
    version: int = 1,
    group: int | None = GROUP,
) -> Packing:
    """group: columns that share a scale, None is all of them."""
    group = group or columns
    codes, scales, zeros = grid(rows, columns, bits, symmetric, rng, group)
    groups = np.arange(columns) // group
    if ordered:
        groups = rng.permutation(groups)
    values = scales.astype(np.float32)[:, groups] * (codes - zeros[:, groups])
    less = (zeros - (1 if version == 1 else 0)) & ((1 << bits) - 1)
    tensors: dict[str, Array | Raw] = {
        "qweight": np.ascontiguousarray(fields(codes, bits).T),
        "qzeros": fields(np.ascontiguousarray(less.T), bits),
        "scales": np.ascontiguousarray(scales.T),
        "g_idx": groups.astype(np.int32),
    }
    return Packing(tensors, values.astype(np.float32))


def awq(rows: int, columns: int, rng: Any, symmetric: bool = False) -> Packing:
    codes, scales, zeros = grid(rows, columns, 4, symmetric, rng)
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def packed(nibbles: Array) -> Array:
        words = nibbles.reshape(len(nibbles), -1, 8)[..., order]
        return fields(words.reshape(len(nibbles), -1), 4)

    tensors: dict[str, Array | Raw] = {
        "qweight": packed(np.ascontiguousarray(codes.T)),
        "qzeros": packed(np.ascontiguousarray(zeros.T)),
        "scales": np.ascontiguousarray(scales.T),
    }
    groups = np.arange(columns) // GROUP
    values = scales.astype(np.float32)[:, groups] * (codes - zeros[:, groups])
    return Packing(tensors, values.astype(np.float32))


def e4m3(codes: Array) -> npt.NDArray[np.float32]:
    """Sign, four bits of exponent with a bias of 7, three of mantissa."""
    sign = np.where(codes & 0x80, -1.0, 1.0)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    small = mantissa / 8 * 2.0**-6
    large = (1 + mantissa / 8) * 2.0 ** (exponent.astype(np.float64) - 7)
    return (sign * np.where(exponent == 0, small, large)).astype(np.float32)


def fp8(rows: int, columns: int, rng: Any, kind: str = "tensor") -> Packing:
    codes = rng.integers(0, 0x78, (rows, columns)).astype(np.uint8)
    codes |= (rng.integers(0, 2, codes.shape) << 7).astype(np.uint8)
    if kind == "block":
        scale = rng.uniform(0.001, 0.01, (-(-rows // 16), -(-columns // 16))).astype(np.float32)
        spread = scale.repeat(16, 0).repeat(16, 1)[:rows, :columns]
    elif kind == "row":
        scale = rng.uniform(0.001, 0.01, (rows, 1)).astype(np.float32)
        spread = scale
    else:
        scale = np.float32([0.002])
        spread = scale
    name = "weight_scale_inv" if kind == "block" else "weight_scale"
    return Packing({"weight": Raw("F8_E4M3", codes), name: scale}, e4m3(codes) * spread)


def nf4(rows: int, columns: int, rng: Any, nested: bool = False) -> Packing:
    codes = rng.integers(0, 16, rows * columns).astype(np.uint8)
    size = 64
    peaks = rng.uniform(0.05, 0.2, codes.size // size).astype(np.float32)
    state: dict[str, Any] = {
        "quant_type": "nf4",
        "blocksize": size,
        "dtype": "float16",
        "shape": [rows, columns],
    }
    tensors: dict[str, Array | Raw] = {
        "weight": (codes[::2] << 4 | codes[1::2])[:, None],
        "weight.quant_map": NF4,
    }
    if nested:
        table = np.linspace(-1, 1, 256, dtype=np.float32)
        picks = rng.integers(0, 256, peaks.size).astype(np.uint8)
        outer = rng.uniform(0.01, 0.02, -(-peaks.size // 16)).astype(np.float32)
        peaks = table[picks] * outer.repeat(16)[: peaks.size] + np.float32(0.1)
        state |= {"nested_blocksize": 16, "nested_offset": 0.1, "nested_dtype": "float32"}
        tensors |= {"weight.absmax": picks, "weight.nested_absmax": outer}
        tensors["weight.nested_quant_map"] = table
    else:
        tensors["weight.absmax"] = peaks
    raw = np.frombuffer(json.dumps(state).encode(), np.uint8)
    tensors["weight.quant_state.bitsandbytes__nf4"] = raw
    values = (NF4[codes].reshape(-1, size) * peaks[:, None]).reshape(rows, columns)
    return Packing(tensors, values)


def int8(rows: int, columns: int, rng: Any) -> Packing:
    codes = rng.integers(-127, 128, (rows, columns)).astype(np.int8)
    peaks = rng.uniform(0.1, 1, rows).astype(np.float32)
    values = (codes * peaks[:, None] / 127).astype(np.float32)
    tensors: dict[str, Array | Raw] = {"weight": codes, "SCB": peaks}
    return Packing(tensors | {"weight_format": np.uint8([0])}, values)


def bitnet(rows: int, columns: int, rng: Any, divides: bool = True) -> Packing:
    """Quarters of the rows in pairs of bits; the scale divides, or multiplies."""
    codes = rng.integers(0, 3, (rows, columns)).astype(np.uint8)
    quarters = codes.reshape(4, -1, columns)
    scale = np.float32(rng.uniform(0.5, 2))
    tensors: dict[str, Array | Raw] = {
        "weight": quarters[0] | quarters[1] << 2 | quarters[2] << 4 | quarters[3] << 6,
        "weight_scale": scale.reshape(1),
    }
    factor = 1 / scale if divides else scale
    return Packing(tensors, (codes.astype(np.float32) - 1) * factor)


def bitnet_online(rows: int, columns: int, rng: Any) -> Packing:
    """As trained; what the model makes of it when it runs."""
    values = rng.standard_normal((rows, columns)).astype(np.float32)
    mean = np.abs(values).mean(dtype=np.float64)
    nearest = np.clip(np.round(values / mean), -1, 1) * mean
    return Packing({"weight": values}, nearest.astype(np.float32))


def compressed(rows: int, columns: int, rng: Any, bits: int = 4, symmetric: bool = True) -> Packing:
    codes, scales, zeros = grid(rows, columns, bits, symmetric, rng)
    tensors: dict[str, Array | Raw] = {
        "weight_packed": fields(codes, bits),
        "weight_scale": scales,
        "weight_shape": np.int64([rows, columns]),
    }
    if not symmetric:
        tensors["weight_zero_point"] = np.ascontiguousarray(
            fields(np.ascontiguousarray(zeros.T), bits).T
        )
    groups = np.arange(columns) // GROUP
    values = scales.astype(np.float32)[:, groups] * (codes - zeros[:, groups])
    return Packing(tensors, values.astype(np.float32))


def compressed_int8(rows: int, columns: int, rng: Any) -> Packing:
    codes = rng.integers(-127, 128, (rows, columns)).astype(np.int8)
    scales = rng.uniform(0.001, 0.01, (rows, 1)).astype(np.float32)
    return Packing({"weight": codes, "weight_scale": scales}, codes * scales)


def mxfp4(rows: int, columns: int, rng: Any) -> Packing:
    codes = rng.integers(0, 16, (rows, columns)).astype(np.uint8)
    exponents = rng.integers(118, 126, (rows, columns // 32)).astype(np.uint8)
    signs = np.where(codes & 8, -1, 1) * E2M1[codes & 7]
    values = signs * np.exp2(exponents.astype(np.float32) - 127).repeat(32, 1)
    tensors: dict[str, Array | Raw] = {
        "weight_packed": codes[:, ::2] | codes[:, 1::2] << 4,
        "weight_scale": exponents,
    }
    return Packing(tensors, values.astype(np.float32))


def modelopt(rows: int, columns: int, rng: Any) -> Packing:
    """NVFP4 under other names, with a scale that multiplies."""
    made = nvfp4(rows, columns, rng)
    tensors = {
        "weight": made.tensors["weight_packed"],
        "weight_scale": made.tensors["weight_scale"],
        "weight_scale_2": np.float32([1 / 64]),
        "input_scale": np.float32([0.5]),
    }
    return Packing(tensors, made.values)


def nvfp4(rows: int, columns: int, rng: Any) -> Packing:
    codes = rng.integers(0, 16, (rows, columns)).astype(np.uint8)
    scales = rng.integers(0x20, 0x70, (rows, columns // 16)).astype(np.uint8)
    whole = np.float32([64.0])
    values = np.where(codes & 8, -1, 1) * E2M1[codes & 7]
    values = values * e4m3(scales).repeat(16, 1) / whole
    tensors: dict[str, Array | Raw] = {
        "weight_packed": codes[:, ::2] | codes[:, 1::2] << 4,
        "weight_scale": Raw("F8_E4M3", scales),
        "weight_global_scale": whole,
    }
    return Packing(tensors, values.astype(np.float32))
