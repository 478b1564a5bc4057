"""Ops on each row alone, in numpy."""

from collections.abc import Mapping

import numpy as np

from edgellm.kernels.batch import Batch
from edgellm.kernels.formats import dequantize_rows
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.program import OpCall, Weight
from edgellm.kernels.reference.common import (
    Array,
    Inputs,
    Op,
    bias_and_scale,
    output_width,
    product,
    vector,
)


def _embed(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    table = call.weights[0]
    rows = dequantize_rows(table.format, table.data[batch.input_ids])
    return rows * np.float32(call.attributes["scale"])


def _embed_positions(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    table = call.weights[0]
    return dequantize_rows(table.format, table.data[batch.positions])


def _layer_norm(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    (x,) = inputs
    heads = int(call.attributes["heads"])
    parts = x.reshape(len(x), heads, x.shape[1] // heads).astype(np.float64)
    centred = parts - parts.mean(axis=-1, keepdims=True)
    variance = np.mean(np.square(centred), axis=-1, keepdims=True)
    normed: Array = (centred / np.sqrt(variance + float(call.attributes["eps"]))).astype(np.float32)
    rest = iter(call.weights)
    if call.attributes["weight"]:
        normed *= _of_parts(next(rest), parts.shape[2])
    if call.attributes["bias"]:
        normed += _of_parts(next(rest), parts.shape[2])
    return normed.reshape(x.shape)


def _of_parts(weight: Weight, width: int) -> Array:
    """One row of `width` for all parts, or one for each."""
    return vector(weight).reshape(-1, width)


def _rms_norm(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    (x,) = inputs
    heads = int(call.attributes["heads"])
    parts = x.reshape(len(x), heads, x.shape[1] // heads)  # there may be no row at all
    mean = np.mean(np.square(parts, dtype=np.float64), axis=-1, keepdims=True)
    normed: Array = (parts / np.sqrt(mean + float(call.attributes["eps"]))).astype(np.float32)
    if call.weights:
        normed *= _of_parts(call.weights[0], parts.shape[2])
    return normed.reshape(x.shape)


def _gaussian_top_k(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    x = inputs[0].astype(np.float64)
    mean, deviation = x.mean(axis=1, keepdims=True), x.std(axis=1, keepdims=True)
    above = x - mean - float(call.attributes["deviations"]) * deviation
    kept: Array = np.maximum(above, 0).astype(np.float32)
    return kept


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


def _remainder(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    return np.zeros_like(inputs[0])


def _add(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    return inputs[0] + inputs[1]


def _multiply(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    return inputs[0] * np.float32(call.attributes["factor"])


def _multiply_columns(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    return inputs[0] * vector(call.weights[0])


def _add_columns(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    return inputs[0] + vector(call.weights[0])


def _clamp(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    limit = np.float32(call.attributes["limit"])
    return np.clip(inputs[0], -limit, limit)


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
    "embed_positions": _embed_positions,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "gaussian_top_k": _gaussian_top_k,
    "columns": _columns,
    "matmul": _matmul,
    "remainder": _remainder,
    "add": _add,
    "multiply": _multiply,
    "multiply_columns": _multiply_columns,
    "add_columns": _add_columns,
    "clamp": _clamp,
    "softplus": _softplus,
    "softcap": _softcap,
    "select_outputs": _select_outputs,
}
