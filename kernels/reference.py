"""Every op in plain numpy: the readable specification, and what other backends are tested with.

Knows nothing of models or files. Weights are dequantised when used, a strip of rows at a time.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgellm.errors import BackendError
from edgellm.kernels.batch import Batch
from edgellm.kernels.formats import dequantize_rows
from edgellm.kernels.kv import BLOCK_SIZE, KVArray, KVStorage
from edgellm.kernels.ops import OpCall, Program, Weight

Array = npt.NDArray[np.float32]
Inputs = tuple[Array, ...]

STRIP_WEIGHTS = 1 << 22  # dequantised at a time: 16 MiB of float32


@dataclass(frozen=True, eq=False)
class Executable:
    """A program bound to its key and value storage."""

    program: Program
    kv: KVStorage
    releases: tuple[tuple[int, ...], ...]  # per call, the values that no later call reads

    def run(self, batch: Batch) -> Mapping[str, Array]:
        """Runs one step; the program's outputs by name. Appends to the key and value storage."""
        values: dict[int, Array] = {}
        with np.errstate(all="ignore"):  # exp(-x) may be infinite; what is not a number stays so
            for call, released in zip(self.program.calls, self.releases, strict=True):
                inputs = tuple(values[v.index] for v in call.inputs)
                result = OPS[call.op](call, inputs, batch, self.kv)
                if call.output is not None and result is not None:
                    values[call.output.index] = result
                for index in released:
                    del values[index]
        return {name: values[v.index] for name, v in self.program.outputs.items()}

    def close(self) -> None:
        """Nothing is held beyond this object."""


def load(program: Program, kv: KVStorage) -> Executable:
    """Binds `program` to `kv`. BackendError names an op that is not known here."""
    for call in program.calls:
        if call.op not in OPS:
            raise BackendError(f"the reference backend has no op called {call.op!r}")
    return Executable(program, kv, _releases(program))


def _releases(program: Program) -> tuple[tuple[int, ...], ...]:
    last_use = {
        value.index: position
        for position, call in enumerate(program.calls)
        for value in (*call.inputs, call.output)
        if value is not None
    }
    for value in program.outputs.values():
        del last_use[value.index]
    released: list[list[int]] = [[] for _ in program.calls]
    for index, position in last_use.items():
        released[position].append(index)
    return tuple(tuple(indices) for indices in released)


def _vector(weight: Weight) -> Array:
    """All the numbers of a small weight, in one row."""
    return dequantize_rows(weight.format, weight.data).reshape(-1)


def _strips(weight: Weight, first: int, last: int) -> Iterator[tuple[slice, Array]]:
    """Rows first to last in pieces: where in the product they belong, and their numbers."""
    step = max(1, STRIP_WEIGHTS // weight.columns)
    for start in range(first, last, step):
        stop = min(start + step, last)
        rows = dequantize_rows(weight.format, weight.data[start:stop])
        yield slice(start - first, stop - first), rows


def _product(x: Array, weight: Weight, first: int, last: int) -> Array:
    """x (T, columns) times the transpose of rows first to last -> (T, last - first)."""
    y = np.empty((len(x), last - first), np.float32)
    for where, rows in _strips(weight, first, last):
        y[:, where] = x @ rows.T
    return y


def _bias_and_scale(call: OpCall) -> tuple[Weight | None, Weight | None]:
    rest = iter(call.weights[1:])
    bias = next(rest) if call.attributes["bias"] else None
    scale = next(rest) if call.attributes["scale"] else None
    return bias, scale


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
        normed *= _vector(call.weights[0])
    return normed.reshape(x.shape)


def _matmul(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    weight = call.weights[0]
    bias, scale = _bias_and_scale(call)
    y = _product(inputs[0], weight, 0, weight.rows)
    if scale is not None:
        y *= _vector(scale)
    if bias is not None:
        y += _vector(bias)
    return y


def _add(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    return inputs[0] + inputs[1]


def _multiply(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    return inputs[0] * np.float32(call.attributes["factor"])


def _sigmoid(x: Array) -> Array:
    one = np.float32(1)
    return one / (one + np.exp(-x, dtype=np.float32))


def _silu(gate: Array, up: Array, alpha: float, limit: float) -> Array:
    return gate * _sigmoid(gate) * up


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
    return g * _sigmoid(np.float32(alpha) * g) * (u + 1)


ACTIVATIONS: Mapping[str, Callable[[Array, Array, float, float], Array]] = {
    "silu": _silu,
    "gelu_tanh": _gelu_tanh,
    "swiglu_clamped": _swiglu_clamped,
}


def _gated(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    gate, up = inputs
    activation = ACTIVATIONS[str(call.attributes["activation"])]
    return activation(gate, up, float(call.attributes["alpha"]), float(call.attributes["limit"]))


def _softcap(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    cap = np.float32(call.attributes["cap"])
    capped: Array = cap * np.tanh(inputs[0] / cap)
    return capped


def _rope_table(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    frequencies = _vector(call.weights[0]).astype(np.float64)
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


def _store_kv(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> None:
    layer = int(call.attributes["layer"])
    block, offset = np.divmod(batch.slot_mapping[int(call.attributes["group"])], BLOCK_SIZE)
    for rows, storage in zip(inputs, (kv.keys[layer], kv.values[layer]), strict=True):
        heads = storage.shape[1]
        storage[block, :, offset] = rows.reshape(len(rows), heads, -1)


def _gather(storage: KVArray, blocks: npt.NDArray[np.int32], first: int, last: int) -> Array:
    """Cached rows at positions first to last: (num_kv_heads, last - first, head_dim)."""
    start = first // BLOCK_SIZE
    used = storage[blocks[start : -(-last // BLOCK_SIZE)]]  # (blocks, heads, BLOCK_SIZE, head_dim)
    rows = used.swapaxes(0, 1).reshape(storage.shape[1], -1, storage.shape[3])
    return rows[:, first - start * BLOCK_SIZE : last - start * BLOCK_SIZE].astype(np.float32)


def _attention(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    (q,) = inputs
    layer, group = int(call.attributes["layer"]), int(call.attributes["group"])
    num_heads, num_kv_heads = (int(call.attributes[n]) for n in ("num_heads", "num_kv_heads"))
    per_kv_head = num_heads // num_kv_heads
    sinks = _vector(call.weights[0]) if call.weights else np.full(num_heads, -np.inf, np.float32)
    window = call.attributes.get("window")
    out = np.empty((len(q), num_heads, q.shape[1] // num_heads), np.float32)
    queries = q.reshape(out.shape)
    for s in range(batch.num_seqs):
        rows = slice(int(batch.query_start[s]), int(batch.query_start[s + 1]))
        position = batch.positions[rows, None]
        # Blocks wholly before the first query's window may be someone else's by now.
        first = 0 if window is None else max(0, int(position[0, 0]) - int(window) + 1)
        last = int(batch.seq_lens[s])
        keys, values = (
            _gather(storage[layer], batch.block_tables[group, s], first, last)
            for storage in (kv.keys, kv.values)
        )
        key_position = np.arange(first, last)
        hidden = key_position > position  # (queries, keys)
        if window is not None:
            hidden |= key_position <= position - int(window)
        for head in range(num_heads):
            k, v = keys[head // per_kv_head], values[head // per_kv_head]
            scores = queries[rows, head] @ k.T * np.float32(call.attributes["scale"])
            if "softcap" in call.attributes:
                cap = np.float32(call.attributes["softcap"])
                scores = cap * np.tanh(scores / cap)
            scores[hidden] = -np.inf
            highest = np.maximum(scores.max(axis=1, keepdims=True), sinks[head])
            weights = np.exp(scores - highest)
            total = weights.sum(axis=1, keepdims=True) + np.exp(sinks[head] - highest)
            out[rows, head] = weights @ v / total
    return out.reshape(q.shape)


def _softmax(x: Array) -> Array:
    weights: Array = np.exp(x - x.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def _moe_route(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    (scores,) = inputs
    gating = call.attributes["gating"]
    if gating == "softmax":
        scores = _softmax(scores)
    elif gating == "sigmoid":
        scores = _sigmoid(scores)
    preference = scores + _vector(call.weights[0]) if call.weights else scores
    ranked = np.argsort(-preference, axis=1, kind="stable")[:, : int(call.attributes["top_k"])]
    weights = np.take_along_axis(scores, ranked, axis=1)
    if gating == "softmax_selected":
        weights = _softmax(weights)
    if call.attributes["normalize"]:
        weights = weights / weights.sum(axis=1, keepdims=True)
    weights = weights * np.float32(call.attributes["factor"])
    return np.concatenate([ranked.astype(np.float32), weights], axis=1)


def _moe_matmul(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    x, routing = inputs
    weight = call.weights[0]
    bias, scale = _bias_and_scale(call)
    top_k = routing.shape[1] // 2
    height = weight.rows // int(call.attributes["experts"])
    expert_of = routing[:, :top_k].astype(np.int64)
    parts = x.reshape(len(x), -1, weight.columns)  # one part for all ranks, or one for each
    y = np.empty((len(x), top_k, height), np.float32)
    for expert in np.unique(expert_of):
        rows, ranks = np.nonzero(expert_of == expert)
        chosen = parts[rows, ranks if parts.shape[1] > 1 else 0]
        product = _product(chosen, weight, expert * height, (expert + 1) * height)
        if scale is not None:
            product *= _vector(scale)[expert]
        if bias is not None:
            product += dequantize_rows(bias.format, bias.data[expert : expert + 1])
        y[rows, ranks] = product
    return y.reshape(len(x), -1)


def _moe_combine(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    x, routing = inputs
    top_k = routing.shape[1] // 2
    parts = x.reshape(len(x), top_k, -1)
    total = parts[:, 0] * routing[:, top_k, None]
    for rank in range(1, top_k):
        total += parts[:, rank] * routing[:, top_k + rank, None]
    return total


def _select_outputs(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    return inputs[0][batch.logits_rows]


OPS: Mapping[str, Callable[[OpCall, Inputs, Batch, KVStorage], Array | None]] = {
    "embed": _embed,
    "rms_norm": _rms_norm,
    "matmul": _matmul,
    "add": _add,
    "multiply": _multiply,
    "gated": _gated,
    "softcap": _softcap,
    "rope_table": _rope_table,
    "rope": _rope,
    "store_kv": _store_kv,
    "attention": _attention,
    "moe_route": _moe_route,
    "moe_matmul": _moe_matmul,
    "moe_combine": _moe_combine,
    "select_outputs": _select_outputs,
}
