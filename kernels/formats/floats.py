"""The float types: F32, F16, BF16 and F64, stored one weight to a block.

They have no `unpack`: a backend reads them with kernels of their own.
"""

import numpy as np

from edgellm.kernels.formats.format import Blocks, Format, Values


def dequantize_f32(blocks: Blocks) -> Values:
    """Bytes as they are."""
    return blocks.view("<f4").astype(np.float32, copy=False)


def quantize_f32(values: Values, importance: Values | None = None) -> Blocks:
    """Bytes as they are."""
    return values.astype("<f4", copy=False).view(np.uint8)


def dequantize_f16(blocks: Blocks) -> Values:
    """IEEE half, exact in float32."""
    return blocks.view("<f2").astype(np.float32)


def quantize_f16(values: Values, importance: Values | None = None) -> Blocks:
    """Round to nearest even; what lies beyond a half becomes infinite, as IEEE says."""
    with np.errstate(over="ignore"):
        return values.astype("<f2").view(np.uint8)


def dequantize_bf16(blocks: Blocks) -> Values:
    """The upper half of a float32."""
    return (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32)


def quantize_bf16(values: Values, importance: Values | None = None) -> Blocks:
    """Round to nearest even; a NaN stays one and turns quiet."""
    bits = values.view(np.uint32)
    rounded = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
    upper = np.where(np.isnan(values), bits >> 16 | 0x40, rounded)
    return upper.astype("<u2").view(np.uint8)


def dequantize_f64(blocks: Blocks) -> Values:
    """Rounded to float32; what lies beyond it becomes infinite, as IEEE says."""
    with np.errstate(over="ignore"):
        return blocks.view("<f8").astype(np.float32)


def quantize_f64(values: Values, importance: Values | None = None) -> Blocks:
    """Exact."""
    return values.astype("<f8").view(np.uint8)


FORMATS = (
    Format(0, "F32", 1, 4, dequantize_f32, quantize_f32),
    Format(1, "F16", 1, 2, dequantize_f16, quantize_f16),
    Format(30, "BF16", 1, 2, dequantize_bf16, quantize_bf16),
    Format(28, "F64", 1, 8, dequantize_f64, quantize_f64),
)
