"""Convolutions and recurrences over a sequence, token by token, in numpy."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from edgellm.kernels.batch import Batch
from edgellm.kernels.formats import dequantize_rows
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.program import OpCall
from edgellm.kernels.reference.common import Array, Inputs, Op, sigmoid, vector


def _sequences(
    call: OpCall, batch: Batch, kv: KVStorage, width: int
) -> Iterator[tuple[slice, Array]]:
    """The rows of each sequence, and its state (rows, width), to be updated in place."""
    storage = kv.states[int(call.attributes["state"])]
    for s, slot in enumerate(batch.state_slots):
        rows = slice(int(batch.query_start[s]), int(batch.query_start[s + 1]))
        state = storage[slot, :, :width]
        if batch.positions[rows.start] == 0:
            state[:] = 0
        yield rows, state


def _short_convolution(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    (x,) = inputs
    taps = dequantize_rows(call.weights[0].format, call.weights[0].data).T  # (kernel, channels)
    y = np.zeros_like(x)
    for rows, state in _sequences(call, batch, kv, x.shape[1]):
        seen = np.concatenate([state, x[rows]])
        for j, tap in enumerate(taps):
            y[rows] += seen[j : j + rows.stop - rows.start] * tap
        state[:] = seen[len(seen) - len(state) :]
    if len(call.weights) > 1:
        y += vector(call.weights[1])
    return y * sigmoid(y) if call.attributes["silu"] else y


def _selective_scan(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    x, dt, b, c = inputs
    a = dequantize_rows(call.weights[0].format, call.weights[0].data)  # (heads, state_size or 1)
    d = vector(call.weights[1])
    heads, groups = len(a), int(call.attributes["groups"])
    state_size = b.shape[1] // groups
    channels = x.reshape(len(x), heads, -1)
    y = np.empty_like(channels)
    # (T, heads, 1, state_size): each group serves neighbouring heads.
    b, c = (
        np.repeat(m.reshape(len(x), groups, 1, state_size), heads // groups, axis=1) for m in (b, c)
    )
    for rows, state in _sequences(call, batch, kv, state_size):
        h = state.reshape(heads, -1, state_size)
        for t in range(rows.start, rows.stop):
            step = dt[t, :, None, None]
            h = np.exp(step * a[:, None]) * h + step * channels[t, :, :, None] * b[t]
            y[t] = (h * c[t]).sum(axis=-1)
        state[:] = h.reshape(state.shape)
    y += d[:, None] * channels
    return y.reshape(x.shape)


def _outer(k: Array, v: Array) -> Array:
    """k v^T of each head."""
    return k[:, :, None] * v[:, None]


def _read(s: Array, q: Array) -> Array:
    """S^T q of each head."""
    read: Array = np.einsum("hk,hkv->hv", q, s)
    return read


def _token_by_token(
    call: OpCall,
    batch: Batch,
    kv: KVStorage,
    v: Array,
    step: Callable[[int, Array], tuple[Array, Array]],
) -> Array:
    """Recurrences with a matrix for each head. v (T, heads, value_dim), as what comes out.

    step: of a row and the matrices before it, those after it and what comes out.
    """
    y = np.empty_like(v)
    for rows, state in _sequences(call, batch, kv, v.shape[2]):
        s = state.reshape(v.shape[1], -1, v.shape[2])
        for t in range(rows.start, rows.stop):
            s, y[t] = step(t, s)
        state[:] = s.reshape(state.shape)
    return y.reshape(len(y), -1)


def _delta_rule(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    q, k, v, dt, beta = inputs
    heads, key_heads = beta.shape[1], int(call.attributes["key_heads"])
    head = np.arange(heads)
    is_tiled = call.attributes["order"] == "tiled"
    key_head = head % key_heads if is_tiled else head // (heads // key_heads)
    q, k = (m.reshape(len(m), key_heads, -1)[:, key_head] for m in (q, k))
    v, dt = (m.reshape(len(m), heads, -1) for m in (v, dt))
    decay, rate = np.exp(vector(call.weights[0])[:, None] * dt), sigmoid(beta)

    def step(t: int, s: Array) -> tuple[Array, Array]:
        s = decay[t, :, :, None] * s
        error = v[t] - _read(s, k[t])
        s = s + _outer(k[t], rate[t, :, None] * error)
        return s, _read(s, q[t])

    return _token_by_token(call, batch, kv, v, step)


def _wkv7(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    heads = int(call.attributes["heads"])
    r, w, k, v, a, b = (m.reshape(len(m), heads, -1) for m in inputs)
    decay = np.exp(np.float32(-np.exp(-0.5)) * sigmoid(w))

    def step(t: int, s: Array) -> tuple[Array, Array]:
        s = decay[t, :, :, None] * s + _outer(b[t], _read(s, a[t]))
        s = s + _outer(k[t], v[t])
        return s, _read(s, r[t])

    return _token_by_token(call, batch, kv, v, step)


def _linear_attention(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    heads = int(call.attributes["heads"])
    r, decay, k, v = (m.reshape(len(m), heads, -1) for m in inputs)
    bonus = vector(call.weights[0]).reshape(heads, -1) if call.weights else None

    def step(t: int, s: Array) -> tuple[Array, Array]:
        new = _outer(k[t], v[t])
        after = decay[t, :, :, None] * s + new
        return after, _read(after if bonus is None else s + bonus[:, :, None] * new, r[t])

    return _token_by_token(call, batch, kv, v, step)


OPS: Mapping[str, Op] = {
    "short_convolution": _short_convolution,
    "selective_scan": _selective_scan,
    "delta_rule": _delta_rule,
    "linear_attention": _linear_attention,
    "wkv7": _wkv7,
}
