"""Storage has the program's shape and takes no memory before it is used."""

import numpy as np
import psutil
import pytest

from edgellm import kv_cache
from edgellm.errors import BackendError
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.kernels.ops import KVGroup, KVLayer, Program, Value


def program(*layers: KVLayer) -> Program:
    groups = range(1 + max(layer.group for layer in layers))
    return Program((), {"logits": Value(0, 1)}, tuple(KVGroup(g, ()) for g in groups), layers, 1)


MIXED = program(KVLayer(0, 2, 16), KVLayer(1, 1, 64), KVLayer(0, 2, 16))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_each_layer_has_the_blocks_of_its_group(dtype: kv_cache.KVType) -> None:
    kv = kv_cache.allocate(MIXED, (5, 3), dtype)
    for arrays in (kv.keys, kv.values):
        assert [a.shape for a in arrays] == [
            (5, 2, BLOCK_SIZE, 16),
            (3, 1, BLOCK_SIZE, 64),
            (5, 2, BLOCK_SIZE, 16),
        ]
        assert all(a.dtype == dtype for a in arrays)
    assert not any(np.shares_memory(k, v) for k, v in zip(kv.keys, kv.values, strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_bytes_per_token_are_what_allocation_takes(dtype: kv_cache.KVType) -> None:
    kv = kv_cache.allocate(MIXED, (1, 1), dtype)
    total = sum(array.nbytes for array in (*kv.keys, *kv.values))
    assert kv_cache.bytes_per_token(MIXED, dtype) * BLOCK_SIZE == total
    parts = [kv_cache.bytes_per_token(MIXED, dtype, group) for group in (0, 1)]
    assert parts == [4 * 32 * np.dtype(dtype).itemsize, 2 * 64 * np.dtype(dtype).itemsize]


def test_untouched_storage_takes_no_memory() -> None:
    before = psutil.Process().memory_info().rss
    kv = kv_cache.allocate(program(KVLayer(0, 8, 128)), (4096,), np.float32)
    assert kv.keys[0].nbytes == 512 << 20
    assert psutil.Process().memory_info().rss - before < 32 << 20


def test_too_much_memory_is_a_clear_error() -> None:
    with pytest.raises(BackendError, match=r"MiB of keys and values.*smaller context"):
        kv_cache.allocate(program(KVLayer(0, 1024, 1024)), (1 << 32,), np.float32)


def test_a_count_for_each_group() -> None:
    with pytest.raises(ValueError, match="1 block counts for 2 groups"):
        kv_cache.allocate(MIXED, (5,), np.float32)
