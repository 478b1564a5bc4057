"""The plain read really reads: its sum is that of numpy."""

import numpy as np
import pytest

from edgellm.config import cache_dir
from edgellm.kernels.cpu.plain_read import PlainRead


@pytest.mark.parametrize("threads", [1, 2])
def test_every_line_is_read_once(threads: int) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 256, size, np.uint8) for size in (64, 0, 63, 4096, 100_003, 192)]
    whole = [array[: len(array) // 64 * 64] for array in arrays]
    read = PlainRead(arrays, cache_dir(), threads)
    try:
        want = sum(int(array.view(np.int32).sum(dtype=np.int64)) for array in whole)
        assert read.num_bytes == sum(map(len, whole))
        assert read.run() == want % 2**32
        arrays[3][4095] ^= 128
        assert read.run() != want % 2**32
    finally:
        read.close()


def test_gaps_are_refused() -> None:
    with pytest.raises(ValueError, match="gaps"):
        PlainRead([np.zeros((8, 128), np.uint8)[:, :64]], None)
