"""Rotary positions, the key-value cache and attention over it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from edgellm.kernels.kv import BLOCK_SIZE, CACHE_TYPES, CacheType, cache_type
from edgellm.kernels.opencl.ops.common import output, real, vector, whole, written
from edgellm.kernels.opencl.plan import (
    STEP,
    TILE_ROWS,
    Argument,
    Choice,
    Count,
    Grid,
    IndexArray,
    Lowering,
    Plan,
    Room,
    Size,
    count_word,
)
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.ops.attention import alibi_slopes
from edgellm.kernels.program import ATTENTION_TILE, OpCall

# Of one launch of attention, which a desktop may end when it takes two seconds: products of two
# numbers, of which the slowest GPUs do some 3e10 a second, but never less than so many rows.
_PRODUCTS_AT_ONCE, _LEAST_AT_ONCE = 1 << 33, 128


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


def _types(plan: Plan, call: OpCall) -> tuple[CacheType, int, CacheType, int]:
    """Type and width of a head's keys and of its stored values; no values are of width 0."""
    layer = int(call.attributes["layer"])
    shape = plan.kv_layers[layer]
    keys = cache_type(plan.kv.keys[layer], shape.head_dim)
    values = cache_type(plan.kv.values[layer], shape.value_dim) if shape.value_dim else keys
    return keys, shape.head_dim, values, shape.value_dim


def _key(plan: Plan, call: OpCall, function: str, *more: tuple[str, int]) -> KernelKey:
    """A kernel that knows how keys and values of the op's layer are stored."""
    keys, head_dim, values, value_dim = _types(plan, call)
    numbers = {name: number for number, name in enumerate(CACHE_TYPES)}  # as source/cache.cl
    definitions = (
        ("HEAD_DIM", head_dim),
        ("STORED_DIM", value_dim),
        ("KEY_TYPE", numbers[keys.name]),
        ("VALUE_TYPE", numbers[values.name]),
    )
    return KernelKey(function, function, definitions=(*definitions, *more))


def _rotated(plan: Plan, x: Room, count: Count, heads: int, size: int) -> Room:
    """The Hadamard transform of each head."""
    room, group = Room(x.rows, x.row_bytes), plan.variant.group
    names = ("SIZE", str(size)), ("FACTOR", f"{float(np.float32(size**-0.5)).hex()}f")
    key = KernelKey("hadamard", "hadamard", definitions=names)
    grid = Grid(count, lambda n: (n * heads * group,), (group,))
    plan.emit([Choice(1, key, grid)], x, room, writes=[room])
    return room


def _store_kv(plan: Plan, call: OpCall) -> None:
    """Values may be part of the keys: then there are none to store, and nothing is rotated."""
    keys, head_dim, values, value_dim = _types(plan, call)
    heads = call.inputs[0].width // head_dim
    k, v = plan.of(call.inputs[0]), plan.of(call.inputs[1]) if value_dim else None
    if v is not None and keys.rotates(head_dim):
        k = _rotated(plan, k, k.rows, heads, head_dim)
    if v is not None and values.rotates(value_dim):
        v = _rotated(plan, v, v.rows, heads, value_dim)
    _emit_store(plan, call, k, v)


def rope_and_store(plan: Plan, calls: Sequence[OpCall], count: Count = "tokens") -> None:
    """Queries are rotated, and keys on their way into the cache: rope, rope, store_kv.

    Keys of quantised types need all of a head at once, and a launch for each op. count: of rows
    for which this is done.
    """
    of_q, of_k, store = calls
    if _is_quantized(plan, store):
        _rope(plan, of_q)
        _rope(plan, of_k)
        _store_kv(plan, store)
        return
    q, room = of_q.inputs[0], plan.new(output(of_q))
    k, v = _new_rows(plan, calls)
    table, *how = _rotation(plan, of_q)
    _emit_store(
        plan, store, k, v, plan.of(q), table, room, np.int32(of_q.attributes["heads"]), *how,
        more_items=q.width, writes=[room], count=count,
    )  # fmt: skip


def _is_quantized(plan: Plan, store: OpCall) -> bool:
    keys, _, values, value_dim = _types(plan, store)
    return keys.is_quantized or (value_dim > 0 and values.is_quantized)


def _rotation(plan: Plan, rope: OpCall) -> tuple[Room, np.int32, np.int32]:
    """Table, pairs, whether they are interleaved."""
    table = rope.inputs[1]
    return (
        plan.of(table),
        np.int32(table.width // 2),
        np.int32(rope.attributes["layout"] == "interleaved"),
    )


def _new_rows(plan: Plan, calls: Sequence[OpCall]) -> tuple[Room, Room | None]:
    """Keys and values as store_kv, the last of the calls, gets them, or ropes before it do."""
    store = calls[-1]
    k = calls[-2].inputs[0] if len(calls) > 1 else store.inputs[0]
    return plan.of(k), plan.of(store.inputs[1]) if len(store.inputs) > 1 else None


def _emit_store(
    plan: Plan,
    call: OpCall,
    k: Room,
    v: Room | None,
    *rotates: Argument,
    more_items: int = 0,
    writes: Sequence[Room] = (),
    count: Count = "tokens",
) -> None:
    """rotates: what the kernel takes to rotate keys and queries, or nothing."""
    layer = int(call.attributes["layer"])
    keys, head_dim, values, value_dim = _types(plan, call)
    heads = call.inputs[0].width // head_dim
    units = head_dim // (32 if keys.is_quantized else 1)
    units += value_dim // (32 if values.is_quantized else 1)
    plan.by_items(
        _key(plan, call, "store_kv", ("ROTATES", int(bool(rotates)))), count,
        heads * units + more_items,
        STEP, IndexArray("slots"), k, v, plan.store.keys[layer], plan.store.values[layer],
        *rotates, whole(call, "group"), np.int32(heads), writes=writes,
    )  # fmt: skip


def store_and_attend(plan: Plan, calls: Sequence[OpCall]) -> None:
    """Perhaps rope and rope, then store_kv and attention: one launch where rows are alone."""
    *ropes, store, attention = calls
    shared = _shared_heads(attention)
    is_one = (
        attention.attributes.get("causal", 1)
        and not _is_quantized(plan, store)
        and _heads_together(plan, attention, 1, False) == shared
    )
    count: Count = "together" if is_one else "tokens"
    if ropes:
        rope_and_store(plan, calls[:-1], count)
    elif is_one:
        _emit_store(plan, store, *_new_rows(plan, [store]), count=count)
    else:
        _store_kv(plan, store)
    _attend(plan, attention, calls[:-1] if is_one else ())


def _sizes(items: int, n: int) -> Size:
    return items, n


def _shared_heads(call: OpCall) -> int:
    """Heads that read the same keys."""
    return int(call.attributes["num_heads"]) // int(call.attributes["num_kv_heads"])


def _heads_together(plan: Plan, call: OpCall, rows: int, is_split: bool) -> int:
    """Heads of each of `rows` rows that a work-group does."""
    value_dim = 0 if is_split else int(call.attributes["value_dim"])
    pair_bytes = 4 * (plan.variant.group + ATTENTION_TILE + value_dim)
    most = min(plan.variant.pairs, plan.variant.local // pair_bytes) // rows
    return max(n for n in range(1, max(1, most) + 1) if _shared_heads(call) % n == 0)


def _attention(plan: Plan, call: OpCall) -> None:
    _attend(plan, call, ())


def _attend(plan: Plan, call: OpCall, stored: Sequence[OpCall]) -> None:
    """A row at a time, tiles of rows where sequences have many, or a tile of a few rows' keys.

    stored: what has not been done for rows that are alone (store_and_attend), or nothing.
    """
    causal = int(call.attributes.get("causal", 1))
    q, out, layer = call.inputs[0], output(call), int(call.attributes["layer"])
    heads, kv_heads = int(call.attributes["num_heads"]), int(call.attributes["num_kv_heads"])
    group, value_dim = plan.variant.group, int(call.attributes["value_dim"])
    longest = len(plan.kv.keys[layer]) * BLOCK_SIZE  # tokens that a row may see
    products_of_row = heads * max(1, longest) * (plan.kv_layers[layer].head_dim + value_dim)

    def choice(count: Count, rows: int) -> Choice:
        together = _heads_together(plan, call, rows, count == "parts")
        names = {
            "VALUE_DIM": value_dim,
            "HEADS": together,
            "ROWS": rows,
            "CAUSAL": causal,
            "SLOPES": int("alibi" in call.attributes),
            "SOFTCAP": int(bool(call.attributes.get("softcap"))),
            "SPLIT": int(count == "parts"),
            "STORES": int(count == "alone"),
            "ROTATES": int(count == "alone" and len(stored) > 1),
        }
        key = _key(plan, call, "attention", *names.items())
        most = max(_LEAST_AT_ONCE // rows, _PRODUCTS_AT_ONCE // (rows * products_of_row))
        sizes = partial(_sizes, heads // together * group)
        return Choice(1, key, Grid(count, sizes, (group, 1), most))

    choices = [choice("tokens", 1), choice("tiles", TILE_ROWS)]
    of_new: list[Argument] = [None] * 5 + [np.int32(0)] * 2  # slots, k, v, queries; a rotation
    if stored:
        choices.append(choice("alone", 1))
        of_new[:3] = [IndexArray("slots"), *_new_rows(plan, stored)]
    if len(stored) > 1:
        of_new[3:] = [plan.of(stored[0].inputs[0]), *_rotation(plan, stored[0])]
    partials = None
    if plan.variant.split_rows and causal:
        choices.append(choice("parts", 1))
        partials = Room("parts", 4 * heads * (value_dim + 2))

    slopes = None
    if "alibi" in call.attributes:
        slopes = plan.context.upload(alibi_slopes(heads, float(call.attributes["alibi"])), "slopes")
    keys, head_dim, values, stored_dim = _types(plan, call)
    queries = plan.of(q)
    if stored_dim and keys.rotates(head_dim):
        queries = _rotated(plan, queries, q.rows, heads, head_dim)
    is_rotated = stored_dim > 0 and values.rotates(stored_dim)
    room = Room(out.rows, 4 * out.width) if is_rotated else plan.new(out)
    records = None if is_rotated or value_dim % 32 else plan.new_records(out)
    sinks, window, chunked = vector(plan, call), whole(call, "window"), whole(call, "chunked")
    plan.emit(
        choices,
        STEP, IndexArray("positions"), IndexArray("row_seqs"), IndexArray("seq_lens"),
        IndexArray("tiles"), IndexArray("parts"), IndexArray("block_tables"), queries,
        plan.store.keys[layer], plan.store.values[layer], sinks, slopes, partials, room,
        records, whole(call, "group"), np.int32(kv_heads), real(call, "scale"), window, chunked,
        real(call, "softcap"), *of_new, writes=written(room, partials, records),
    )  # fmt: skip
    if partials:
        key = replace(choices[-1].key, function="attention_merge")
        plan.emit(
            [Choice(1, key, Grid("split_rows", partial(_sizes, heads * group), (group, 1)))],
            IndexArray("positions"), IndexArray("part_starts"), partials, sinks, room,
            records, window, chunked,
        )  # fmt: skip
    if is_rotated:  # values were, and so is their weighted sum
        plan.rooms[out] = _rotated(plan, room, q.rows, heads, value_dim)


def _relative_attention(plan: Plan, call: OpCall) -> None:
    (q, k, v), out, biases = call.inputs, output(call), call.weights[0]
    heads, kv_heads = int(call.attributes["num_heads"]), int(call.attributes["num_kv_heads"])
    room = plan.new(out)
    plan.by_items(
        KernelKey("relative_attention", "relative_attention"), out.rows, heads,
        STEP, IndexArray("row_seqs"), IndexArray("query_start"), plan.of(q), plan.of(k),
        plan.of(v), plan.weights.vector(biases), room, np.int32(heads), np.int32(kv_heads),
        np.int32(k.width // kv_heads), np.int32(v.width // kv_heads),
        np.int32(biases.columns // 2), real(call, "scale"), writes=[room],
    )  # fmt: skip


LOWERINGS: Mapping[str, Lowering] = {
    "rope_table": _rope_table,
    "rope": _rope,
    "position_scale": _position_scale,
    "store_kv": _store_kv,
    "attention": _attention,
    "relative_attention": _relative_attention,
}
