"""Small programs of rows without a cache, or with one, for the numpy backend to run."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from edgellm.kernels import reference
from edgellm.kernels.batch import Batch
from edgellm.kernels.formats import by_name, quantize_rows
from edgellm.kernels.kv import BLOCK_SIZE, KVStorage
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Value, Weight

Array = npt.NDArray[np.float32]
NO_KV = KVStorage((), ())


def weight(values: npt.ArrayLike, format_name: str = "F32") -> Weight:
    """A matrix, or a vector as one row, in the named format."""
    fmt = by_name(format_name)
    rows = np.atleast_2d(np.asarray(values, np.float32))
    return Weight("w", fmt.type_id, len(rows), rows.shape[1], quantize_rows(fmt, rows))


def rows_batch(count: int, positions: list[int] | None = None) -> Batch:
    """`count` rows of one sequence without a cache; row t embeds row t of a table."""
    where = np.array(positions or range(count), np.int32)
    return Batch(
        input_ids=np.arange(count, dtype=np.int32),
        positions=where,
        query_start=np.array([0, count], np.int32),
        seq_lens=where[-1:] + 1,
        slot_mapping=np.zeros((0, count), np.int64),
        block_tables=np.zeros((0, 1, 0), np.int32),
        state_slots=np.zeros(1, np.int32),
        logits_rows=np.arange(count, dtype=np.int32),
    )


def run(build: Callable[..., Value], *inputs: Array, batch: Batch | None = None) -> Array:
    """What `build(builder, *values)` computes from these inputs of equal row count."""
    b = Builder()
    program = b.finish(logits=build(b, *(b.embed(weight(x)) for x in inputs)))
    used = batch or rows_batch(len(inputs[0]))
    return np.asarray(reference.load(program, NO_KV).run(used)["logits"])


def cached_batch(lengths: list[tuple[int, int]], tables: list[list[int]]) -> Batch:
    """Per sequence (tokens before, tokens now), all with one KV group."""
    positions = np.concatenate([np.arange(a, a + n) for a, n in lengths]).astype(np.int32)
    owner = np.repeat(np.arange(len(lengths)), [n for _, n in lengths])
    blocks = np.zeros((1, len(tables), max(map(len, tables))), np.int32)
    for s, table in enumerate(tables):
        blocks[0, s, : len(table)] = table
    slots = blocks[0, owner, positions // BLOCK_SIZE] * BLOCK_SIZE + positions % BLOCK_SIZE
    return Batch(
        input_ids=np.arange(len(positions), dtype=np.int32),
        positions=positions,
        query_start=np.cumsum([0] + [n for _, n in lengths]).astype(np.int32),
        seq_lens=np.array([a + n for a, n in lengths], np.int32),
        slot_mapping=slots[None].astype(np.int64),
        block_tables=blocks,
        state_slots=np.arange(len(lengths), dtype=np.int32),
        logits_rows=np.arange(len(positions), dtype=np.int32),
    )
