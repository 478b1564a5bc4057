"""Lowerings of rotary embedding, the key-value cache and attention."""

from collections.abc import Mapping

import numpy as np

from edgellm.errors import BackendError
from edgellm.kernels.cpu import layout
from edgellm.kernels.cpu.lower.common import (
    Lowering,
    by_rows,
    float_word,
    integer,
    number,
    output,
    stride,
)
from edgellm.kernels.cpu.plan import Plan
from edgellm.kernels.kv import KVArray
from edgellm.kernels.ops.attention import alibi_slopes
from edgellm.kernels.program import OpCall


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


def _cache_type(array: KVArray) -> str:
    return {"float32": "f32", "float16": "f16"}[array.dtype.name]


def _cache(plan: Plan, call: OpCall) -> tuple[KVArray, KVArray]:
    layer = integer(call, "layer")
    return plan.kv.keys[layer], plan.kv.values[layer]


def _store_kv(plan: Plan, call: OpCall) -> None:
    k, (keys, values) = call.inputs[0], _cache(plan, call)
    v = call.inputs[-1]  # the keys again, of which nothing is copied, where values are part of them
    plan.emit(
        ("store_kv", _cache_type(keys), _cache_type(values)),
        plan.of(k), stride(k), plan.of(v), stride(v), keys.ctypes.data, values.ctypes.data,
        integer(call, "group"), keys.shape[1], keys.shape[3], values.shape[3],
        partition=by_rows(k, keys.shape[1]), stores=(plan.caches[integer(call, "layer")],),
    )  # fmt: skip


def _attention(plan: Plan, call: OpCall) -> None:
    """Also makes the int8 form of its result where heads are whole blocks of it."""
    q, out = call.inputs[0], output(call)
    keys, values = _cache(plan, call)
    heads, kv_heads = integer(call, "num_heads"), integer(call, "num_kv_heads")
    value_dim = integer(call, "value_dim")
    largest, most = max(keys.shape[3], value_dim), layout.MAX_HEAD_DIM
    if largest > most:
        raise BackendError(f"heads of {largest} numbers: the cpu backend has at most {most}")
    sinks = plan.vector(call.weights[0]) if call.weights else 0
    ramp = np.arange(8, dtype=np.float32)
    slopes = alibi_slopes(heads, float(call.attributes.get("alibi", 0.0)))
    is_int8 = plan.wants_int8(out) and value_dim % layout.ACTIVATION_BLOCK == 0
    values_in = _cache_type(values) if values.shape[3] else "keys"
    plan.emit(
        ("attention", _cache_type(keys), values_in),
        plan.of(q), stride(q), plan.new(out), stride(out), keys.ctypes.data, values.ctypes.data,
        integer(call, "group"), heads, kv_heads, keys.shape[3], value_dim,
        float_word(number(call, "scale")), int(call.attributes.get("window", 0)),
        float_word(float(call.attributes.get("softcap", 0.0))), sinks,
        plan.new_int8(out) if is_int8 else 0, layout.activation_row_bytes(out.width),
        plan.matrix(np.concatenate([ramp, slopes])[None]) if "alibi" in call.attributes else 0,
        loads=(plan.caches[integer(call, "layer")],),
    )  # fmt: skip


LOWERINGS: Mapping[str, Lowering] = {
    "rope_table": _rope_table,
    "rope": _rope,
    "position_scale": _position_scale,
    "store_kv": _store_kv,
    "attention": _attention,
}
