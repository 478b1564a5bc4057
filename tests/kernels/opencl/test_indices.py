"""What kernels are told of a batch."""

import numpy as np
import pytest

from edgellm.kernels.opencl.indices import indices_of, parts_of, tiles_of
from tests.kernels.cpu.programs import pack, streams


def test_rows_of_one_sequence_share_a_tile() -> None:
    tiles = tiles_of(np.array([0, 1, 10], np.int32))
    assert tiles.tolist() == [[0, 1], [1, 4], [5, 4], [9, 1]]


def test_a_row_has_a_part_for_each_tile_it_sees() -> None:
    parts, starts = parts_of(np.array([255, 256, 700], np.int32))
    assert parts.tolist() == [[0, 0], [1, 0], [1, 1], [2, 0], [2, 1], [2, 2]]
    assert starts.tolist() == [0, 1, 3]


@pytest.mark.parametrize(
    ("past", "counts", "chosen"),
    [
        (0, (1, 1), set()),
        (0, (9, 1), {"tiles"}),
        (300, (1, 1), {"parts", "split_rows"}),
        (300, (5, 3), {"parts", "split_rows"}),
        (300, (9, 1), {"tiles"}),  # too many rows to be split
    ],
)
def test_attention_is_computed_one_way(
    past: int, counts: tuple[int, ...], chosen: set[str]
) -> None:
    work = [
        (s, n) for s, n in zip(streams(np.random.default_rng(0), 2, 400, 1), counts, strict=True)
    ]
    for stream, _ in work:
        stream.computed = past
    indices = indices_of(pack(work), split_rows=8)
    ways = {name for name in ("tiles", "parts", "split_rows") if indices.counts[name]}
    assert ways == chosen
    assert (indices.arrays["parts"].size > 0) == ("parts" in chosen)
