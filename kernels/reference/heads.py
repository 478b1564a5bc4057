"""Ops on the equal parts of a row, in numpy."""

from collections.abc import Mapping

import numpy as np

from edgellm.kernels.batch import Batch
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.program import OpCall
from edgellm.kernels.reference.common import Array, Inputs, Op, product


def _by_head(x: Array, call: OpCall) -> Array:
    heads = int(call.attributes["heads"])
    return x.reshape(len(x), heads, x.shape[1] // heads)


def _concat_heads(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    a, b = inputs
    joined = np.concatenate([_by_head(a, call), _by_head(b, call)], axis=2)
    return joined.reshape(len(a), a.shape[1] + b.shape[1])


def _head_matmul(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    assert call.output is not None
    (x,), weight = inputs, call.weights[0]
    parts = _by_head(x, call)
    heads = parts.shape[1]
    n, height = call.output.width // heads, weight.rows // heads
    starts = [head * height + int(call.attributes["first"]) for head in range(heads)]
    products = [product(parts[:, h], weight, start, start + n) for h, start in enumerate(starts)]
    return np.concatenate(products, axis=1)


def _scale_heads(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    x, factors = inputs
    parts = x.reshape(*factors.shape, x.shape[1] // factors.shape[1])
    return (parts * factors[:, :, None]).reshape(x.shape)


OPS: Mapping[str, Op] = {
    "concat_heads": _concat_heads,
    "head_matmul": _head_matmul,
    "scale_heads": _scale_heads,
}
