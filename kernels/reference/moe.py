"""The mixture of experts, in numpy."""

from collections.abc import Mapping

import numpy as np

from edgellm.kernels.batch import Batch
from edgellm.kernels.formats import dequantize_rows
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.ops.moe import MIN_GATE_SUM
from edgellm.kernels.program import OpCall
from edgellm.kernels.reference.common import (
    Array,
    Inputs,
    Op,
    bias_and_scale,
    product,
    sigmoid,
    softmax,
    vector,
)


def _moe_route(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    (scores,) = inputs
    gating = call.attributes["gating"]
    if gating == "softmax":
        scores = softmax(scores)
    elif gating == "sigmoid":
        scores = sigmoid(scores)
    preference = scores + vector(call.weights[0]) if call.weights else scores
    preference = _within_groups(preference, call)
    ranked = np.argsort(-preference, axis=1, kind="stable")[:, : int(call.attributes["top_k"])]
    weights = np.take_along_axis(scores, ranked, axis=1)
    if gating == "softmax_selected":
        weights = softmax(weights)
    if call.attributes["normalize"]:
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.maximum(total, np.float32(MIN_GATE_SUM))
    weights = weights * np.float32(call.attributes["factor"])
    return np.concatenate([ranked.astype(np.float32), weights], axis=1)


def _within_groups(preference: Array, call: OpCall) -> Array:
    """Minus infinity for experts outside the groups with the highest scores."""
    count, used, best = (int(call.attributes[n]) for n in ("groups", "groups_used", "group_best"))
    if count == 1:
        return preference
    grouped = preference.reshape(len(preference), count, -1)
    scores = np.sort(grouped, axis=2)[:, :, -best:].sum(axis=2)
    kept = np.argsort(-scores, axis=1, kind="stable")[:, :used]
    masked = np.full_like(grouped, -np.inf)
    np.put_along_axis(
        masked, kept[..., None], np.take_along_axis(grouped, kept[..., None], axis=1), axis=1
    )
    return masked.reshape(preference.shape)


def _moe_matmul(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    x, routing = inputs
    weight = call.weights[0]
    bias, scale = bias_and_scale(call)
    top_k = routing.shape[1] // 2
    height = weight.rows // int(call.attributes["experts"])
    output = call.output
    assert output is not None
    n, first = output.width // top_k, int(call.attributes["first"])
    expert_of = routing[:, :top_k].astype(np.int64)
    parts = x.reshape(len(x), -1, weight.columns)  # one part for all ranks, or one for each
    y = np.empty((len(x), top_k, n), np.float32)
    for expert in np.unique(expert_of):
        rows, ranks = np.nonzero(expert_of == expert)
        chosen = parts[rows, ranks if parts.shape[1] > 1 else 0]
        start = expert * height + first
        part = product(chosen, weight, start, start + n)
        if scale is not None:
            part *= vector(scale)[expert]
        if bias is not None:
            part += dequantize_rows(bias.format, bias.data[expert : expert + 1])
        y[rows, ranks] = part
    return y.reshape(len(x), -1)


def _moe_combine(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    x, routing = inputs
    top_k = routing.shape[1] // 2
    parts = x.reshape(len(x), top_k, -1)
    total = parts[:, 0] * routing[:, top_k, None]
    for rank in range(1, top_k):
        total += parts[:, rank] * routing[:, top_k + rank, None]
    return total


OPS: Mapping[str, Op] = {
    "moe_route": _moe_route,
    "moe_matmul": _moe_matmul,
    "moe_combine": _moe_combine,
}
