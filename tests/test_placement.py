"""How many layers go to a GPU, from sizes alone."""

import numpy as np
import pytest

from edgellm.errors import BackendError
from edgellm.kernels.kv import CACHE_TYPES
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Program, Weight
from edgellm.kv_cache import KVTypes
from edgellm.limits import Limits
from edgellm.placement import layer_starts, place, scratch_bytes, weight_bytes

TYPES = KVTypes(CACHE_TYPES["f16"], CACHE_TYPES["f16"])
LIMITS = Limits(256, 2, 32, 40, 8, (None,))
WIDTH, LAYERS = 64, 4
PLENTY = 1 << 30


def matrix(name: str) -> Weight:
    return Weight(name, 0, WIDTH, WIDTH, np.zeros((WIDTH, 4 * WIDTH), np.uint8))


@pytest.fixture(scope="module")
def program() -> Program:
    b = Builder()
    x = b.embed(matrix("token_embd.weight"))
    for layer in range(LAYERS):
        x = b.matmul(x, matrix(f"blk.{layer}.attn_q.weight"))
        x = b.attention(x, x, x, num_heads=1, num_kv_heads=1, scale=1.0)
    return b.finish(logits=b.matmul(b.select_outputs(x), matrix("output.weight")))


def test_all_layers_where_there_is_room(program: Program) -> None:
    found = place(program, LIMITS, TYPES, None, host_memory=PLENTY, device_memory=PLENTY)
    assert (found.gpu_layers, found.num_layers, found.first) == (LAYERS, LAYERS, None)
    assert found.second is program and found.device_weights == weight_bytes(program.calls)
    assert layer_starts(program) == [1, 4, 7, 10]


@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_so_many_layers_as_are_wanted(program: Program, wanted: int) -> None:
    found = place(program, LIMITS, TYPES, wanted, host_memory=PLENTY, device_memory=PLENTY)
    assert found.gpu_layers == wanted and found.first is not None
    # Each part has its layers' weights, and one of the two tables.
    each = 4 * WIDTH * WIDTH
    assert found.device_weights == (wanted + 1) * each
    assert weight_bytes(found.first.calls) == (LAYERS - wanted + 1) * each


def test_as_many_layers_as_fit(program: Program) -> None:
    counts = []
    scratch = scratch_bytes(program, LIMITS)
    for room in range(0, 5 * weight_bytes(program.calls), 4 * WIDTH * WIDTH):
        memory = {"host_memory": PLENTY, "device_memory": scratch + room}
        try:
            found = place(program, LIMITS, TYPES, None, **memory)
        except BackendError as error:
            assert "1 of 4 layers do not fit" in str(error)
            counts.append(0)
        else:
            counts.append(found.gpu_layers)
    assert counts == sorted(counts) and set(counts) == {0, 1, 2, 3, 4}


def test_the_smaller_memory_decides_on_the_cache(program: Program) -> None:
    weights = weight_bytes(program.calls) + scratch_bytes(program, LIMITS)
    small = weights + 12 * 32 * WIDTH * 4 * LAYERS
    on_device = place(program, LIMITS, TYPES, 2, host_memory=PLENTY, device_memory=small)
    on_host = place(program, LIMITS, TYPES, 2, host_memory=small, device_memory=PLENTY)
    both = place(program, LIMITS, TYPES, 2, host_memory=small, device_memory=small)
    assert both.num_blocks == min(on_device.num_blocks, on_host.num_blocks)


def test_what_does_not_fit_is_refused_with_numbers(program: Program) -> None:
    with pytest.raises(BackendError, match="3 of 4 layers do not fit on the GPU: .* GiB"):
        place(program, LIMITS, TYPES, 3, host_memory=PLENTY, device_memory=1000)
