"""What the reference ops share: their types, weights as numbers, products a strip at a time."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from edgellm.kernels.batch import Batch
from edgellm.kernels.formats import dequantize_rows
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.program import OpCall, Weight

Array = npt.NDArray[np.float32]
Inputs = tuple[Array, ...]
Op = Callable[[OpCall, Inputs, Batch, KVStorage], Array | None]

STRIP_WEIGHTS = 1 << 22  # dequantised at a time: 16 MiB of float32


def vector(weight: Weight) -> Array:
    """All the numbers of a small weight, in one row."""
    return dequantize_rows(weight.format, weight.data).reshape(-1)


def _strips(weight: Weight, first: int, last: int) -> Iterator[tuple[slice, Array]]:
    """Rows first to last in pieces: where in the product they belong, and their numbers."""
    step = max(1, STRIP_WEIGHTS // weight.columns)
    for start in range(first, last, step):
        stop = min(start + step, last)
        rows = dequantize_rows(weight.format, weight.data[start:stop])
        yield slice(start - first, stop - first), rows


def product(x: Array, weight: Weight, first: int, last: int) -> Array:
    """x (T, columns) times the transpose of rows first to last -> (T, last - first)."""
    y = np.empty((len(x), last - first), np.float32)
    for where, rows in _strips(weight, first, last):
        y[:, where] = x @ rows.T
    return y


def output_width(call: OpCall) -> int:
    """Columns of the value that a call writes."""
    assert call.output is not None
    return call.output.width


def bias_and_scale(call: OpCall) -> tuple[Weight | None, Weight | None]:
    rest = iter(call.weights[1:])
    bias = next(rest) if call.attributes["bias"] else None
    scale = next(rest) if call.attributes["scale"] else None
    return bias, scale


def sigmoid(x: Array) -> Array:
    one = np.float32(1)
    return one / (one + np.exp(-x, dtype=np.float32))


def softmax(x: Array) -> Array:
    weights: Array = np.exp(x - x.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights
