"""Lowerings of rotary embedding, the key-value cache and attention."""

from collections.abc import Mapping

import numpy as np

from edgellm.errors import BackendError
from edgellm.kernels.cpu import layout
from edgellm.kernels.cpu.lower.common import (
    Lowering,
    by_rows,
    count_word,
    float_word,
    integer,
    number,
    output,
    stride,
)
from edgellm.kernels.cpu.plan import BufferAddress, Plan, floats
from edgellm.kernels.kv import KVArray, cache_type
from edgellm.kernels.ops.attention import alibi_slopes
from edgellm.kernels.program import OpCall, Value


def _rope_table(plan: Plan, call: OpCall) -> None:
    frequencies, out = call.weights[0], output(call)
    words = plan.new(out), stride(out), plan.vector(frequencies), frequencies.columns
    plan.emit(("rope_table",), *words, float_word(number(call, "magnitude")))


def _rope(plan: Plan, call: OpCall) -> None:
    (x, table), out, heads = call.inputs, output(call), integer(call, "heads")
    plan.emit(
        ("rope", str(call.attributes["layout"])),
        plan.of(x), plan.new(out), stride(x), plan.of(table), stride(table),
        table.width // 2, heads, x.width // heads, partition=by_rows(x, heads),
    )  # fmt: skip


def _position_scale(plan: Plan, call: OpCall) -> None:
    x = call.inputs[0]
    plan.emit(
        ("position_scale",),
        plan.of(x), plan.new(output(call)), stride(x), integer(call, "length"),
        float_word(number(call, "factor")), integer(call, "offset"), partition=by_rows(x),
    )  # fmt: skip


def _cache(plan: Plan, call: OpCall) -> tuple[KVArray, KVArray]:
    layer = integer(call, "layer")
    return plan.kv.keys[layer], plan.kv.values[layer]


def _turned(plan: Plan, x: Value, width: int, is_needed: bool) -> BufferAddress:
    """x, or its heads of `width` after a Hadamard rotation."""
    if not is_needed:
        return plan.of(x)
    out, heads = plan.scratch(x), x.width // width
    plan.emit(
        ("hadamard",),
        plan.of(x), out, stride(x), count_word(x), heads, width, float_word(width**-0.5),
        partition=by_rows(x, heads),
    )  # fmt: skip
    return out


def _store_kv(plan: Plan, call: OpCall) -> None:
    k, (keys, values) = call.inputs[0], _cache(plan, call)
    v = call.inputs[-1]  # the keys again, of which nothing is copied, where values are part of them
    head_dim = k.width // keys.shape[1]
    value_dim = v.width // keys.shape[1] if values.shape[3] else 0
    key_type, value_type = cache_type(keys, head_dim), cache_type(values, value_dim)
    plan.emit(
        ("store_kv", key_type.name, value_type.name),
        _turned(plan, k, head_dim, key_type.rotates(head_dim) and value_dim > 0), stride(k),
        _turned(plan, v, value_dim, value_dim > 0 and value_type.rotates(value_dim)), stride(v),
        keys.ctypes.data, values.ctypes.data, integer(call, "group"), keys.shape[1], head_dim,
        value_dim,
        partition=by_rows(k, keys.shape[1]), stores=(plan.caches[integer(call, "layer")],),
    )  # fmt: skip


def _keys_ahead(call: OpCall) -> int:
    """How many keys after its own a query sees, if the sequence is that long."""
    if call.attributes.get("causal", 1):
        return 0
    window = int(call.attributes.get("window", 0))
    return window - 1 if window else layout.MAX_POSITION


def _attention(plan: Plan, call: OpCall) -> None:
    """Also makes the int8 form of its result where heads are whole blocks of it."""
    q, out = call.inputs[0], output(call)
    keys, values = _cache(plan, call)
    heads, kv_heads = integer(call, "num_heads"), integer(call, "num_kv_heads")
    head_dim, value_dim = q.width // heads, integer(call, "value_dim")
    largest, most = max(head_dim, value_dim), layout.MAX_HEAD_DIM
    if largest > most:
        raise BackendError(f"heads of {largest} numbers: the cpu backend has at most {most}")
    sinks = plan.vector(call.weights[0]) if call.weights else 0
    ramp = np.arange(8, dtype=np.float32)
    slopes = alibi_slopes(heads, float(call.attributes.get("alibi", 0.0)))
    has_values = values.shape[3] > 0
    key_type = cache_type(keys, head_dim)
    values_in = cache_type(values, value_dim).name if has_values else "keys"
    is_turned = has_values and cache_type(values, value_dim).rotates(value_dim)
    query = _turned(plan, q, head_dim, has_values and key_type.rotates(head_dim))
    is_int8 = not is_turned and plan.wants_int8(out) and value_dim % layout.ACTIVATION_BLOCK == 0
    plan.emit(
        ("attention", key_type.name, values_in),
        query, stride(q), plan.new(out), stride(out), keys.ctypes.data, values.ctypes.data,
        integer(call, "group"), heads, kv_heads, head_dim, value_dim,
        float_word(number(call, "scale")), int(call.attributes.get("window", 0)),
        float_word(float(call.attributes.get("softcap", 0.0))), sinks,
        plan.new_int8(out) if is_int8 else 0, layout.activation_row_bytes(out.width),
        plan.matrix(np.concatenate([ramp, slopes])[None]) if "alibi" in call.attributes else 0,
        int(call.attributes.get("chunked", 0)),
        _keys_ahead(call),
        loads=(plan.caches[integer(call, "layer")],),
    )  # fmt: skip
    if is_turned:
        plan.buffers[out] = _turned(plan, out, value_dim, True).buffer


def _relative_attention(plan: Plan, call: OpCall) -> None:
    (q, k, v), out, biases = call.inputs, output(call), floats(call.weights[0])
    heads, kv_heads = integer(call, "num_heads"), integer(call, "num_kv_heads")
    plan.emit(
        ("relative_attention",),
        plan.of(q), stride(q), plan.of(k), stride(k), plan.of(v), stride(v), plan.new(out),
        stride(out), heads, kv_heads, k.width // kv_heads, v.width // kv_heads,
        float_word(number(call, "scale")), plan.matrix(biases), layout.padded(biases.shape[1]),
        biases.shape[1] // 2,
    )  # fmt: skip


LOWERINGS: Mapping[str, Lowering] = {
    "rope_table": _rope_table,
    "rope": _rope,
    "position_scale": _position_scale,
    "store_kv": _store_kv,
    "attention": _attention,
    "relative_attention": _relative_attention,
}
