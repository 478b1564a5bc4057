"""Zeros that take room where they are written, and no more."""

import numpy as np
import psutil
import pytest

from edgellm.kernels.small_pages import zeros


def test_zeros_to_write() -> None:
    array = zeros((3, 5), np.float32)
    assert array.dtype == np.float32 and array.shape == (3, 5) and not array.any()
    array[2] = 1
    assert array.sum() == 5
    assert zeros((0, 4), np.int8).shape == (0, 4)


def test_a_page_is_not_two_mebibytes() -> None:
    process = psutil.Process()
    before = process.memory_info().rss
    array = zeros((64, 1 << 20), np.uint8)
    array[:, 0] = 1
    assert process.memory_info().rss - before < array.nbytes / 8


def test_more_than_there_is() -> None:
    for size in (1 << 60, 1 << 70):
        with pytest.raises(MemoryError):
            zeros((size,), np.uint8)
