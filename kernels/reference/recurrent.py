"""Convolutions and recurrences over a sequence, token by token, in numpy."""

from collections.abc import Iterator, Mapping

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


def _delta_rule(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    q, k, v, dt, beta = inputs
    heads, key_heads = beta.shape[1], int(call.attributes["key_heads"])
    head = np.arange(heads)
    is_tiled = call.attributes["order"] == "tiled"
    key_head = head % key_heads if is_tiled else head // (heads // key_heads)
    q, k = (m.reshape(len(m), key_heads, -1)[:, key_head] for m in (q, k))
    v, dt = (m.reshape(len(m), heads, -1) for m in (v, dt))
    decay, rate = np.exp(vector(call.weights[0])[:, None] * dt), sigmoid(beta)
    y = np.empty_like(v)
    for rows, state in _sequences(call, batch, kv, v.shape[2]):
        s = state.reshape(heads, -1, v.shape[2])
        for t in range(rows.start, rows.stop):
            s = decay[t, :, :, None] * s
            error = v[t] - np.einsum("hk,hkv->hv", k[t], s)
            s = s + k[t, :, :, None] * (rate[t, :, None] * error)[:, None]
            y[t] = np.einsum("hk,hkv->hv", q[t], s)
        state[:] = s.reshape(state.shape)
    return y.reshape(len(y), -1)


def _wkv7(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    heads = int(call.attributes["heads"])
    r, w, k, v, a, b = (m.reshape(len(m), heads, -1) for m in inputs)
    decay = np.exp(np.float32(-np.exp(-0.5)) * sigmoid(w))
    y = np.empty_like(v)
    for rows, state in _sequences(call, batch, kv, v.shape[2]):
        s = state.reshape(heads, -1, v.shape[2])
        for t in range(rows.start, rows.stop):
            seen = np.einsum("hk,hkv->hv", a[t], s)
            s = decay[t, :, :, None] * s + b[t, :, :, None] * seen[:, None]
            s = s + k[t, :, :, None] * v[t, :, None]
            y[t] = np.einsum("hk,hkv->hv", r[t], s)
        state[:] = s.reshape(state.shape)
    return y.reshape(len(y), -1)


def _linear_attention(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    heads = int(call.attributes["heads"])
    r, decay, k, v = (m.reshape(len(m), heads, -1) for m in inputs)
    bonus = vector(call.weights[0]).reshape(heads, -1) if call.weights else None
    y = np.empty_like(v)
    for rows, state in _sequences(call, batch, kv, v.shape[2]):
        s = state.reshape(heads, -1, v.shape[2])
        for t in range(rows.start, rows.stop):
            new = k[t, :, :, None] * v[t, :, None]
            after = decay[t, :, :, None] * s + new
            seen = after if bonus is None else s + bonus[:, :, None] * new
            y[t] = np.einsum("hk,hkv->hv", r[t], seen)
            s = after
        state[:] = s.reshape(state.shape)
    return y.reshape(len(y), -1)


OPS: Mapping[str, Op] = {
    "short_convolution": _short_convolution,
    "selective_scan": _selective_scan,
    "delta_rule": _delta_rule,
    "linear_attention": _linear_attention,
    "wkv7": _wkv7,
}
