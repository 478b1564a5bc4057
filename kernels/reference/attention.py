"""Rotary embedding, the key-value cache and attention, in numpy."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from edgellm.kernels.batch import Batch
from edgellm.kernels.formats import by_name, dequantize_rows, quantize_rows
from edgellm.kernels.kv import BLOCK_SIZE, KVArray, KVStorage, cache_type, hadamard
from edgellm.kernels.ops.attention import alibi_slopes
from edgellm.kernels.program import OpCall
from edgellm.kernels.reference.common import Array, Inputs, Op, softmax, vector


def _rope_table(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    frequencies = vector(call.weights[0]).astype(np.float64)
    angles = batch.positions[:, None] * frequencies
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    return (table * float(call.attributes["magnitude"])).astype(np.float32)


def _rope(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    x, table = inputs
    pairs = table.shape[1] // 2
    cos, sin = table[:, None, :pairs], table[:, None, pairs:]
    rotated = x.reshape(len(x), int(call.attributes["heads"]), -1).copy()
    if call.attributes["layout"] == "interleaved":
        first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    else:
        first, second = slice(0, pairs), slice(pairs, 2 * pairs)
    a, b = rotated[..., first].copy(), rotated[..., second].copy()
    rotated[..., first] = a * cos - b * sin
    rotated[..., second] = a * sin + b * cos
    return rotated.reshape(x.shape)


def _position_scale(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    length, offset = int(call.attributes["length"]), int(call.attributes["offset"])
    whole = (batch.positions.astype(np.int64) + offset) // length
    scale = 1 + float(call.attributes["factor"]) * np.log1p(whole)
    return inputs[0] * scale[:, None].astype(np.float32)


def _store_kv(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> None:
    layer = int(call.attributes["layer"])
    block, offset = np.divmod(batch.slot_mapping[int(call.attributes["group"])], BLOCK_SIZE)
    for rows, storage in zip(inputs, (kv.keys[layer], kv.values[layer]), strict=False):
        heads = rows.reshape(len(rows), storage.shape[1], -1)
        kind = cache_type(storage, heads.shape[2])
        if kind.is_quantized:
            if kind.rotates(heads.shape[2]) and len(inputs) > 1:
                heads = hadamard(heads)
            storage[block, :, offset] = quantize_rows(by_name(kind.name.upper()), heads)
        else:
            storage[block, :, offset] = heads


def _gather(
    storage: KVArray, width: int, blocks: npt.NDArray[np.int32], first: int, last: int
) -> Array:
    """Cached rows at positions first to last: (num_kv_heads, last - first, width)."""
    start = first // BLOCK_SIZE
    used = storage[blocks[start : -(-last // BLOCK_SIZE)]]  # (blocks, heads, BLOCK_SIZE, head_dim)
    rows = used.swapaxes(0, 1).reshape(storage.shape[1], -1, storage.shape[3])
    rows = rows[:, first - start * BLOCK_SIZE : last - start * BLOCK_SIZE]
    kind = cache_type(storage, width)
    if kind.is_quantized:
        return dequantize_rows(by_name(kind.name.upper()), rows)
    return rows.astype(np.float32)


def _rotates(storage: KVArray, width: int, has_values: bool) -> bool:
    """Keys that are values, too, stay as they are: part of a rotated head is no value."""
    return has_values and cache_type(storage, width).rotates(width)


def _oldest_keys(call: OpCall, position: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The first key that each query sees."""
    if "window" not in call.attributes:
        return np.zeros_like(position)
    window = int(call.attributes["window"])
    if call.attributes["chunked"]:
        return position // window * window
    return np.maximum(position - window + 1, 0)


def _attention(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    (q,) = inputs
    layer, group = int(call.attributes["layer"]), int(call.attributes["group"])
    num_heads, num_kv_heads = (int(call.attributes[n]) for n in ("num_heads", "num_kv_heads"))
    per_kv_head = num_heads // num_kv_heads
    sinks = vector(call.weights[0]) if call.weights else np.full(num_heads, -np.inf, np.float32)
    slopes = alibi_slopes(num_heads, float(call.attributes.get("alibi", 0.0)))
    value_dim = int(call.attributes["value_dim"])
    out = np.empty((len(q), num_heads, value_dim), np.float32)
    queries = q.reshape(len(q), num_heads, q.shape[1] // num_heads)
    head_dim, has_values = queries.shape[2], bool(kv.values[layer].shape[3])
    if _rotates(kv.keys[layer], head_dim, has_values):
        queries = hadamard(queries)
    for s in range(batch.num_seqs):
        rows = slice(int(batch.query_start[s]), int(batch.query_start[s + 1]))
        position = batch.positions[rows, None]
        # Blocks wholly before the first query's window may be someone else's by now.
        oldest = _oldest_keys(call, position)
        first = int(oldest[0, 0])
        last = int(batch.seq_lens[s])
        blocks = batch.block_tables[group, s]
        keys = _gather(kv.keys[layer], head_dim, blocks, first, last)
        if has_values:
            values = _gather(kv.values[layer], value_dim, blocks, first, last)
        else:
            values = keys[..., :value_dim]
        key_position = np.arange(first, last)
        distance = key_position - position  # (queries, keys)
        ahead = 0
        if not call.attributes.get("causal", 1):
            ahead = int(call.attributes.get("window", last + 1)) - 1
        hidden = (distance > ahead) | (key_position < oldest)
        for head in range(num_heads):
            k, v = keys[head // per_kv_head], values[head // per_kv_head]
            scores = queries[rows, head] @ k.T * np.float32(call.attributes["scale"])
            if "softcap" in call.attributes:
                cap = np.float32(call.attributes["softcap"])
                scores = cap * np.tanh(scores / cap)
            if "alibi" in call.attributes:
                scores -= slopes[head] * np.abs(distance).astype(np.float32)
            scores[hidden] = -np.inf
            highest = np.maximum(scores.max(axis=1, keepdims=True), sinks[head])
            weights = np.exp(scores - highest)
            total = weights.sum(axis=1, keepdims=True) + np.exp(sinks[head] - highest)
            out[rows, head] = weights @ v / total
    if has_values and _rotates(kv.values[layer], value_dim, has_values):
        out = hadamard(out)
    return out.reshape(len(q), num_heads * value_dim)


def _relative_attention(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    num_heads, num_kv_heads = (int(call.attributes[n]) for n in ("num_heads", "num_kv_heads"))
    q, k, v = inputs
    queries = q.reshape(len(q), num_heads, -1)
    k, v = (x.reshape(len(x), num_kv_heads, -1) for x in (k, v))
    biases = dequantize_rows(call.weights[0].format, call.weights[0].data)
    reach = biases.shape[1] // 2
    out = np.empty((len(q), num_heads, v.shape[2]), np.float32)
    for s in range(batch.num_seqs):
        rows = slice(int(batch.query_start[s]), int(batch.query_start[s + 1]))
        places = np.arange(rows.stop - rows.start)
        distance = np.clip(places - places[:, None], -reach, reach)  # (queries, keys)
        for head in range(num_heads):
            kv_head = head // (num_heads // num_kv_heads)
            scores = queries[rows, head] @ k[rows, kv_head].T
            scores = scores * np.float32(call.attributes["scale"]) + biases[head, reach + distance]
            out[rows, head] = softmax(scores) @ v[rows, kv_head]
    return out.reshape(len(q), -1)


OPS: Mapping[str, Op] = {
    "rope_table": _rope_table,
    "rope": _rope,
    "position_scale": _position_scale,
    "store_kv": _store_kv,
    "attention": _attention,
    "relative_attention": _relative_attention,
}
