"""Rotary positions, the key-value cache and attention over it."""

from collections.abc import Mapping

import numpy as np

from edgellm.errors import BackendError
from edgellm.kernels.opencl.ops.common import output, real, vector, whole
from edgellm.kernels.opencl.plan import (
    STEP,
    TILE_ROWS,
    Choice,
    Count,
    Grid,
    IndexArray,
    Lowering,
    Plan,
    count_word,
)
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.ops.attention import alibi_slopes
from edgellm.kernels.program import OpCall


def _rope_table(plan: Plan, call: OpCall) -> None:
    frequencies, out = call.weights[0], output(call)
    room = plan.new(out)
    plan.by_items(
        KernelKey("rows", "rope_table"), out.rows, frequencies.columns,
        STEP, IndexArray("positions"), plan.weights.vector(frequencies), room, count_word(out),
        np.int32(frequencies.columns), real(call, "magnitude"), writes=[room],
    )  # fmt: skip


def _rope(plan: Plan, call: OpCall) -> None:
    (x, table), out, heads = call.inputs, output(call), int(call.attributes["heads"])
    room = plan.new(out)
    plan.by_items(
        KernelKey("rows", "rope"), x.rows, x.width,
        STEP, plan.of(x), plan.of(table), room, count_word(x), np.int32(heads),
        np.int32(x.width // heads), np.int32(table.width // 2),
        np.int32(call.attributes["layout"] == "interleaved"), writes=[room],
    )  # fmt: skip


def _position_scale(plan: Plan, call: OpCall) -> None:
    x, out = call.inputs[0], output(call)
    room = plan.new(out)
    plan.by_items(
        KernelKey("rows", "position_scale"), x.rows, x.width,
        STEP, IndexArray("positions"), plan.of(x), room, count_word(x), np.int32(x.width),
        whole(call, "length"), whole(call, "offset"), real(call, "factor"), writes=[room],
    )  # fmt: skip


def _key(plan: Plan, call: OpCall, function: str, *more: tuple[str, int]) -> KernelKey:
    """A kernel that knows how keys and values of the op's layer are stored."""
    layer = int(call.attributes["layer"])
    keys, values = plan.kv.keys[layer], plan.kv.values[layer]
    if np.uint8 in (keys.dtype, values.dtype):
        raise BackendError(
            "the opencl backend stores keys and values as f16 or f32: choose one as kv_cache_type"
        )
    definitions = [("HEAD_DIM", keys.shape[3]), ("STORED_DIM", values.shape[3])]
    definitions += [("KEYS_HALF", 1)] if keys.dtype == np.float16 else []
    definitions += [("VALUES_HALF", 1)] if values.dtype == np.float16 else []
    return KernelKey(function, function, definitions=(*definitions, *more), before=("cache",))


def _store_kv(plan: Plan, call: OpCall) -> None:
    """Values may be part of the keys: then there are none to store."""
    layer = int(call.attributes["layer"])
    k, v = call.inputs[0], call.inputs[1] if len(call.inputs) > 1 else None
    plan.by_items(
        _key(plan, call, "store_kv"), k.rows, k.width + (v.width if v else 0),
        STEP, IndexArray("slots"), plan.of(k), plan.of(v) if v else None, plan.store.keys[layer],
        plan.store.values[layer], whole(call, "group"),
        np.int32(plan.kv.keys[layer].shape[1]),
    )  # fmt: skip


def _attention(plan: Plan, call: OpCall) -> None:
    """A row at a time, or tiles of rows where sequences have many."""
    q, out, layer = call.inputs[0], output(call), int(call.attributes["layer"])
    heads, kv_heads = int(call.attributes["num_heads"]), int(call.attributes["num_kv_heads"])
    group, shared = plan.variant.group, heads // kv_heads

    def choice(count: Count, rows: int) -> Choice:
        most = plan.variant.pairs // rows
        together = max(n for n in range(1, most + 1) if shared % n == 0)
        names = {"VALUE_DIM": int(call.attributes["value_dim"]), "HEADS": together, "ROWS": rows}
        key = _key(plan, call, "attention", *names.items())
        return Choice(1, key, Grid(count, lambda n: (heads // together * group, n), (group, 1)))

    slopes = None
    if "alibi" in call.attributes:
        slopes = plan.context.upload(alibi_slopes(heads, float(call.attributes["alibi"])), "slopes")
    room = plan.new(out)
    plan.emit(
        [choice("tokens", 1), choice("tiles", TILE_ROWS)],
        STEP, IndexArray("positions"), IndexArray("row_seqs"), IndexArray("tiles"),
        IndexArray("block_tables"), plan.of(q), plan.store.keys[layer], plan.store.values[layer],
        vector(plan, call), slopes, room, whole(call, "group"), np.int32(kv_heads),
        real(call, "scale"), whole(call, "window"), real(call, "softcap"), writes=[room],
    )  # fmt: skip


LOWERINGS: Mapping[str, Lowering] = {
    "rope_table": _rope_table,
    "rope": _rope,
    "position_scale": _position_scale,
    "store_kv": _store_kv,
    "attention": _attention,
}
