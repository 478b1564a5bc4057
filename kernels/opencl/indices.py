"""What kernels are told of one batch: counts, and arrays of int32. Knows nothing of devices."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from edgellm.kernels.batch import Batch
from edgellm.kernels.opencl.plan import TILE_ROWS, Count, Index
from edgellm.kernels.program import ATTENTION_TILE

Int32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Indices:
    """counts: what grids are sized by; 0 for what this batch does not need. arrays: flat."""

    counts: Mapping[Count, int]
    arrays: Mapping[Index, Int32]


def indices_of(batch: Batch, split_rows: int) -> Indices:
    """split_rows: of a variant."""
    sizes, tokens = np.diff(batch.query_start), batch.num_tokens
    tiles = tiles_of(batch.query_start)
    parts, part_starts = parts_of(batch.positions)
    is_split = tokens <= split_rows and len(parts) > tokens
    is_alone = not is_split and tokens == batch.num_seqs
    is_tiled = not is_split and tokens >= TILE_ROWS // 2 * batch.num_seqs
    counts: dict[Count, int] = {
        "tokens": tokens,
        "outputs": len(batch.logits_rows),
        "seqs": batch.num_seqs,
        "tiles": len(tiles) if is_tiled else 0,
        "parts": len(parts) if is_split else 0,
        "split_rows": tokens if is_split else 0,
        "alone": tokens if is_alone else 0,
        "together": 0 if is_alone else tokens,
    }
    step = tokens, counts["outputs"], batch.num_seqs, batch.block_tables.shape[-1]
    arrays: dict[Index, npt.NDArray[np.generic]] = {
        "step": np.array([*step, batch.adapter_scales.shape[1]]),
        "input_ids": batch.input_ids,
        "positions": batch.positions,
        "query_start": batch.query_start,
        "seq_lens": batch.seq_lens,
        "state_slots": batch.state_slots,
        "row_seqs": np.repeat(np.arange(len(sizes)), sizes),
        "slots": batch.slot_mapping,
        "block_tables": batch.block_tables,
        "rows": batch.logits_rows,
        "tiles": tiles,
        "parts": parts if is_split else parts[:0],
        "part_starts": part_starts if is_split else part_starts[:0],
        "adapter_scales": batch.row_scales().view(np.int32),
    }
    flat = {name: np.ascontiguousarray(a, np.int32).reshape(-1) for name, a in arrays.items()}
    return Indices(counts, flat)


def tiles_of(query_start: Int32) -> Int32:
    """First row and number of rows of each group of TILE_ROWS or fewer of one sequence: (n, 2)."""
    tiles = [
        (first, min(TILE_ROWS, end - first))
        for start, end in pairwise(query_start.tolist())
        for first in range(start, end, TILE_ROWS)
    ]
    return np.array(tiles, np.int32)


def parts_of(positions: Int32) -> tuple[Int32, Int32]:
    """Row and tile of keys for all that rows at these positions may see, and each row's first."""
    tiles = positions // ATTENTION_TILE + 1
    starts = np.cumsum(tiles) - tiles
    rows = np.repeat(np.arange(len(tiles)), tiles)
    numbers = np.arange(len(rows)) - starts[rows]
    return np.stack([rows, numbers], axis=1).astype(np.int32), starts.astype(np.int32)
