"""Ops on each row alone, in numpy."""

from collections.abc import Callable, Mapping

import numpy as np

from edgellm.kernels.batch import Batch
from edgellm.kernels.formats import dequantize_rows
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.program import OpCall
from edgellm.kernels.reference.common import (
    Array,
    Inputs,
    Op,
    bias_and_scale,
    output_width,
    product,
    sigmoid,
    vector,
)


def _embed(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    table = call.weights[0]
    rows = dequantize_rows(table.format, table.data[batch.input_ids])
    return rows * np.float32(call.attributes["scale"])


def _rms_norm(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    (x,) = inputs
    heads = int(call.attributes["heads"])
    parts = x.reshape(len(x), heads, x.shape[1] // heads)  # there may be no row at all
    mean = np.mean(np.square(parts, dtype=np.float64), axis=-1, keepdims=True)
    normed: Array = (parts / np.sqrt(mean + float(call.attributes["eps"]))).astype(np.float32)
    if call.weights:
        normed *= vector(call.weights[0]).reshape(-1, parts.shape[2])  # one row for all, or each
    return normed.reshape(x.shape)


def _columns(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    (x,) = inputs
    parts, first = int(call.attributes["parts"]), int(call.attributes["first"])
    width = output_width(call) // parts
    chosen = x.reshape(len(x), parts, x.shape[1] // parts)[:, :, first : first + width]
    return chosen.reshape(len(x), parts * width)


def _matmul(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    weight = call.weights[0]
    bias, scale = bias_and_scale(call)
    y = product(inputs[0], weight, 0, weight.rows)
    if scale is not None:
        y *= vector(scale)
    if bias is not None:
        y += vector(bias)
    return y


def _add(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    return inputs[0] + inputs[1]


def _multiply(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    return inputs[0] * np.float32(call.attributes["factor"])


def _silu(gate: Array, up: Array, alpha: float, limit: float) -> Array:
    return gate * sigmoid(gate) * up


def _half(x: Array) -> Array:
    return x.astype(np.float16).astype(np.float32)


def _gelu_tanh(gate: Array, up: Array, alpha: float, limit: float) -> Array:
    # ggml looks GELU up in a table of halves below 10, and golden logits come from there. Other
    # backends may keep full precision: the two differ by 3e-8 of the logits' energy.
    x = _half(np.clip(gate, np.float32(-10), np.float32(10)))
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)
    gelu = _half(np.float32(0.5) * x * (1 + np.tanh(inner)))
    return np.where(gate < 10, gelu, gate) * up


def _swiglu_clamped(gate: Array, up: Array, alpha: float, limit: float) -> Array:
    g, u = np.minimum(gate, np.float32(limit)), np.clip(up, np.float32(-limit), np.float32(limit))
    return g * sigmoid(np.float32(alpha) * g) * (u + 1)


def _sigmoid(gate: Array, up: Array, alpha: float, limit: float) -> Array:
    return sigmoid(gate) * up


def _bilinear(gate: Array, up: Array, alpha: float, limit: float) -> Array:
    return gate * up


ACTIVATIONS: Mapping[str, Callable[[Array, Array, float, float], Array]] = {
    "silu": _silu,
    "gelu_tanh": _gelu_tanh,
    "swiglu_clamped": _swiglu_clamped,
    "sigmoid": _sigmoid,
    "bilinear": _bilinear,
}


def _gated(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    gate, up = inputs
    activation = ACTIVATIONS[str(call.attributes["activation"])]
    return activation(gate, up, float(call.attributes["alpha"]), float(call.attributes["limit"]))


def _softplus(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    x = inputs[0] + vector(call.weights[0]) if call.weights else inputs[0]
    return np.logaddexp(np.float32(0), x)


def _softcap(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    cap = np.float32(call.attributes["cap"])
    capped: Array = cap * np.tanh(inputs[0] / cap)
    return capped


def _select_outputs(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    return inputs[0][batch.logits_rows]


OPS: Mapping[str, Op] = {
    "embed": _embed,
    "rms_norm": _rms_norm,
    "columns": _columns,
    "matmul": _matmul,
    "add": _add,
    "multiply": _multiply,
    "gated": _gated,
    "softplus": _softplus,
    "softcap": _softcap,
    "select_outputs": _select_outputs,
}
