"""Storage has the program's shape and takes no memory before it is used."""

from dataclasses import replace

import numpy as np
import psutil
import pytest

from edgellm.errors import BackendError
from edgellm.kernels.kv import BLOCK_SIZE, CACHE_TYPES
from edgellm.kernels.program import KVGroup, KVLayer, Program, StateLayer, Value
from edgellm.kv_cache import HostStore, KVTypes, allocate, bytes_per_slot, bytes_per_token


def program(*layers: KVLayer) -> Program:
    groups = range(1 + max(layer.group for layer in layers))
    return Program((), {"logits": Value(0, 1)}, tuple(KVGroup(g, ()) for g in groups), layers, 1)


MIXED = program(KVLayer(0, 2, 16, 16), KVLayer(1, 1, 64, 64), KVLayer(0, 2, 16, 16))


F32, F16, BOTH, Q8_0, MIXED_TYPES = (
    KVTypes(CACHE_TYPES[keys], CACHE_TYPES[values])
    for keys, values in (
        ("f32", "f32"),
        ("f16", "f16"),
        ("f16", "f32"),
        ("q8_0", "q8_0"),
        ("q4_0", "q8_0"),
    )
)


@pytest.mark.parametrize("types", [F32, F16, BOTH])
def test_each_layer_has_the_blocks_of_its_group(types: KVTypes) -> None:
    kv = allocate(MIXED, (5, 3), types)
    for arrays, kind in ((kv.keys, types.keys), (kv.values, types.values)):
        assert [a.shape for a in arrays] == [
            (5, 2, BLOCK_SIZE, 16),
            (3, 1, BLOCK_SIZE, 64),
            (5, 2, BLOCK_SIZE, 16),
        ]
        assert all(a.dtype == kind.dtype for a in arrays)
    assert not any(np.shares_memory(k, v) for k, v in zip(kv.keys, kv.values, strict=True))


@pytest.mark.parametrize(("types", "itemsizes"), [(F32, 8), (F16, 4), (BOTH, 6)])
def test_bytes_per_token_are_what_allocation_takes(types: KVTypes, itemsizes: int) -> None:
    kv = allocate(MIXED, (1, 1), types)
    total = sum(array.nbytes for array in (*kv.keys, *kv.values))
    parts = [bytes_per_token(MIXED, types, group) for group in (0, 1)]
    assert sum(parts) * BLOCK_SIZE == total
    assert parts == [2 * 32 * itemsizes, 64 * itemsizes]


@pytest.mark.parametrize(("types", "per_32"), [(Q8_0, 2 * 34), (MIXED_TYPES, 18 + 34)])
def test_quantised_heads_take_a_scale_for_32_numbers(types: KVTypes, per_32: int) -> None:
    wide = program(KVLayer(0, 2, 64, 64), KVLayer(1, 1, 96, 32))
    kv = allocate(wide, (3, 5), types)
    assert sum(a.nbytes for a in (kv.keys[0], kv.values[0])) == 3 * BLOCK_SIZE * 2 * 2 * per_32
    assert [bytes_per_token(wide, types, group) for group in (0, 1)] == [
        (a.nbytes + b.nbytes) // blocks // BLOCK_SIZE
        for a, b, blocks in zip(kv.keys, kv.values, (3, 5), strict=True)
    ]


def test_heads_that_are_no_whole_scales_cannot_be_quantised() -> None:
    with pytest.raises(BackendError, match="heads of 16 numbers cannot be stored as q8_0"):
        allocate(MIXED, (5, 3), Q8_0)


def test_untouched_storage_takes_no_memory() -> None:
    before = psutil.Process().memory_info().rss
    kv = allocate(program(KVLayer(0, 8, 128, 128)), (4096,), F32)
    assert kv.keys[0].nbytes == 512 << 20
    assert psutil.Process().memory_info().rss - before < 32 << 20


def test_too_much_memory_is_a_clear_error() -> None:
    recurrent = replace(
        program(KVLayer(0, 1024, 1024, 1024)), state_layers=(StateLayer(1024, 1024),)
    )
    mib = (1 << 32) * BLOCK_SIZE * 8 + (1 << 20) * 4  # 8 a token, 4 a slot
    with pytest.raises(BackendError, match=rf"for {mib} MiB of keys and values.*smaller context"):
        allocate(recurrent, (1 << 32,), F32, num_slots=1 << 20)


def test_a_count_for_each_group() -> None:
    with pytest.raises(ValueError, match="1 block counts for 2 groups"):
        allocate(MIXED, (5,), F32)


def test_states_have_a_slot_for_each_sequence() -> None:
    states = (StateLayer(3, 20), StateLayer(64, 16))
    recurrent = Program((), {"logits": Value(0, 1)}, (), (), 1, states)
    kv = allocate(recurrent, (), F32, num_slots=4)
    assert [array.shape for array in kv.states] == [(4, 3, 32), (4, 64, 16)]
    assert sum(array.nbytes for array in kv.states) == 4 * bytes_per_slot(recurrent)


def test_a_block_is_copied_read_and_written_in_the_layers_of_its_group_alone() -> None:
    recurrent = replace(MIXED, state_layers=(StateLayer(3, 16), StateLayer(2, 16)))
    kv = allocate(recurrent, (4, 4), BOTH, num_slots=4)
    groups = {
        0: [kv.keys[0], kv.values[0], kv.keys[2], kv.values[2]],
        1: [kv.keys[1], kv.values[1]],
        None: list(kv.states),
    }
    arrays = [array for owned in groups.values() for array in owned]
    for number, array in enumerate(arrays):
        array[:] = np.arange(100 * number, 100 * number + 4).reshape(4, 1, *[1] * (array.ndim - 2))
    store = HostStore(recurrent, kv)
    for group, owned in groups.items():
        before = [array.copy() for array in arrays]
        store.copy(group, 1, 2)
        data = store.read(group, 0)
        assert len(data) == store.block_bytes(group)
        store.write(group, 3, data)
        for array, old in zip(arrays, before, strict=True):
            order = [0, 1, 1, 0] if any(array is one for one in owned) else [0, 1, 2, 3]
            assert np.array_equal(array, old[order])
