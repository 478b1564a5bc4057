"""Random weights, batches and small programs for the tests of this room. Holds no tests."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgellm.kernels.batch import Batch
from edgellm.kernels.cpu.self_check import random_rows
from edgellm.kernels.formats import FORMATS, by_name, quantize_rows
from edgellm.kernels.kv import BLOCK_SIZE, CACHE_TYPES, KVArray, KVStorage
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Program, Value, Weight

Array = npt.NDArray[np.float32]
Rng = np.random.Generator

VOCABULARY = 64
MAX_STREAMS = 8
# Formats that products are computed with.
COMPUTED = [fmt for fmt in FORMATS.values() if fmt.name != "F64"]


def stored(values: npt.ArrayLike, name: str = "F32") -> Weight:
    """Numbers as a weight of a format that edgellm writes; a vector is one row."""
    fmt = by_name(name)
    rows = np.atleast_2d(np.asarray(values, np.float32))
    return Weight(name, fmt.type_id, rows.shape[0], rows.shape[1], quantize_rows(fmt, rows))


def random_weight(rng: Rng, rows: int, columns: int, name: str) -> Weight:
    """A matrix of random bits of any format."""
    fmt = by_name(name)
    return Weight(name, fmt.type_id, rows, columns, random_rows(fmt, rows, columns, rng))


def normal(rng: Rng, *shape: int, scale: float = 1.0) -> Array:
    return (rng.normal(size=shape) * scale).astype(np.float32)


def whole_numbers(rng: Rng, rows: int, columns: int) -> Array:
    """Rows that stay the same as int8: integers, the largest of each 32 is 127."""
    values = rng.integers(-127, 128, (rows, columns)).astype(np.float32)
    values[:, ::32] = 127
    return values


def rows_of(b: Builder, table: Array, name: str = "F32") -> Value:
    """A value whose row for token t is table[input_ids[t]]."""
    return b.embed(stored(table, name))


@dataclass
class Stream:
    """A sequence: its tokens, how many are computed, and its blocks in each KV group."""

    ids: npt.NDArray[np.int32]
    tables: tuple[npt.NDArray[np.int32], ...]
    computed: int = 0
    slot: int = 0  # of states


def streams(rng: Rng, count: int, length: int, groups: int) -> list[Stream]:
    """Random sequences; the blocks of all of them are dealt out in random order."""
    each = -(-length // BLOCK_SIZE)
    orders = [rng.permutation(count * each).astype(np.int32) for _ in range(groups)]
    return [
        Stream(
            rng.integers(0, VOCABULARY, length).astype(np.int32),
            tuple(order[s * each : (s + 1) * each] for order in orders),
            slot=count - 1 - s,
        )
        for s in range(count)
    ]


def pack(work: Sequence[tuple[Stream, int]], logits_rows: npt.ArrayLike = ()) -> Batch:
    """The next so many tokens of each stream, which then count as computed."""
    positions = [np.arange(s.computed, s.computed + count) for s, count in work]
    groups = len(work[0][0].tables)
    width = max((len(table) for stream, _ in work for table in stream.tables), default=0)
    slots = np.zeros((groups, sum(map(len, positions))), np.int64)
    tables = np.zeros((groups, len(work), width), np.int32)
    for g in range(groups):
        for i, (stream, _) in enumerate(work):
            tables[g, i, : len(stream.tables[g])] = stream.tables[g]
        blocks = [s.tables[g][p // BLOCK_SIZE] for (s, _), p in zip(work, positions, strict=True)]
        offsets = np.concatenate(positions) % BLOCK_SIZE
        slots[g] = np.concatenate(blocks).astype(np.int64) * BLOCK_SIZE + offsets
    ids = [s.ids[p] for (s, _), p in zip(work, positions, strict=True)]
    for stream, count in work:
        stream.computed += count
    return Batch(
        input_ids=np.concatenate(ids),
        positions=np.concatenate(positions).astype(np.int32),
        query_start=np.cumsum([0, *(count for _, count in work)]).astype(np.int32),
        seq_lens=np.array([s.computed for s, _ in work], np.int32),
        slot_mapping=slots,
        block_tables=tables,
        state_slots=np.array([stream.slot for stream, _ in work], np.int32),
        logits_rows=np.asarray(logits_rows, np.int32),
    )


def tokens(ids: npt.ArrayLike) -> Batch:
    """One sequence from position 0, without a cache."""
    row = np.asarray(ids, np.int32)
    return pack([(Stream(row, ()), len(row))])


def storage(program: Program, blocks: int, keys: str = "f32", values: str = "f32") -> KVStorage:
    """Room for so many blocks a layer, full of NaN: what nobody wrote must not be read."""

    def room(name: str, widths: list[int]) -> tuple[KVArray, ...]:
        kind = CACHE_TYPES[name]
        nan = 255 if kind.is_quantized else np.nan  # a half of these bytes is not a number either
        return tuple(
            np.full((blocks, kv.num_kv_heads, BLOCK_SIZE, kind.columns(width)), nan, kind.dtype)
            for kv, width in zip(program.kv_layers, widths, strict=True)
        )

    states = tuple(
        np.full((MAX_STREAMS, *state.stored_shape), np.nan, np.float32)
        for state in program.state_layers
    )
    return KVStorage(
        room(keys, [kv.head_dim for kv in program.kv_layers]),
        room(values, [kv.value_dim for kv in program.kv_layers]),
        states,
    )


def decoder(layers: int) -> Program:
    """A small decoder: norm, attention with rope, gated feed-forward, tied logits."""
    rng = np.random.default_rng(0)
    heads, kv_heads, head_dim, hidden = 4, 2, 16, 64
    b = Builder()
    table = b.rope_table(stored(0.1 ** np.arange(0, 1, 2 / head_dim)))

    def matrix(rows: int) -> Weight:
        return stored(normal(rng, rows, hidden, scale=hidden**-0.5), "Q8_0")

    embedding = stored(normal(rng, VOCABULARY, hidden))
    x = b.embed(embedding)
    for _ in range(layers):
        h = b.rms_norm(x, stored(np.ones(hidden)), 1e-5)
        q, k, v = (b.matmul(h, matrix(n * head_dim)) for n in (heads, kv_heads, kv_heads))
        q, k = (b.rope(y, table, y.width // head_dim, "split") for y in (q, k))
        seen = b.attention(q, k, v, num_heads=heads, num_kv_heads=kv_heads, scale=head_dim**-0.5)
        x = b.add(x, b.matmul(seen, matrix(hidden)))
        h = b.rms_norm(x, stored(np.ones(hidden)), 1e-5)
        h = b.gated(b.matmul(h, matrix(hidden)), b.matmul(h, matrix(hidden)), "silu")
        x = b.add(x, b.matmul(h, matrix(hidden)))
    return b.finish(logits=b.matmul(b.select_outputs(x), embedding))
