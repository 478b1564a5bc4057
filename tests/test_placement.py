"""How many layers go to a GPU, from sizes alone."""

from functools import cache

import numpy as np
import pytest

from edgellm.errors import BackendError
from edgellm.kernels.kv import CACHE_TYPES
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Program, Weight
from edgellm.kv_cache import KVTypes
from edgellm.limits import Limits
from edgellm.memory import GPUMemory
from edgellm.placement import layer_starts, place, scratch_bytes, weight_bytes

TYPES = KVTypes(CACHE_TYPES["f16"], CACHE_TYPES["f16"])
LIMITS = Limits(256, 2, 32, 40, 8, (None,))
WIDTH, LAYERS = 64, 4
PLENTY = 1 << 30
GPU = GPUMemory(PLENTY, PLENTY)


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
    found = place(program, LIMITS, TYPES, None, host_memory=PLENTY, gpu_memory=GPU)
    assert (found.gpu_layers, found.num_layers, found.first) == (LAYERS, LAYERS, None)
    assert found.second is program and found.device_weights == weight_bytes(program.calls)
    assert layer_starts(program) == [1, 4, 7, 10]


@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_so_many_layers_as_are_wanted(program: Program, wanted: int) -> None:
    found = place(program, LIMITS, TYPES, wanted, host_memory=PLENTY, gpu_memory=GPU)
    assert found.gpu_layers == wanted and found.first is not None
    # Each part has its layers' weights, and one of the two tables.
    each = 4 * WIDTH * WIDTH
    assert found.device_weights == (wanted + 1) * each
    assert weight_bytes(found.first.calls) == (LAYERS - wanted + 1) * each


def test_as_many_layers_as_fit(program: Program) -> None:
    counts = []
    scratch = scratch_bytes(program, LIMITS)
    for room in range(0, 5 * weight_bytes(program.calls), 4 * WIDTH * WIDTH):
        memory = {"host_memory": PLENTY, "gpu_memory": GPUMemory(scratch + room, PLENTY)}
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
    card = GPUMemory(small, PLENTY)
    on_device = place(program, LIMITS, TYPES, 2, host_memory=PLENTY, gpu_memory=card)
    on_host = place(program, LIMITS, TYPES, 2, host_memory=small, gpu_memory=GPU)
    both = place(program, LIMITS, TYPES, 2, host_memory=small, gpu_memory=card)
    assert both.num_blocks == min(on_device.num_blocks, on_host.num_blocks)


def test_what_does_not_fit_is_refused_with_numbers(program: Program) -> None:
    with pytest.raises(BackendError, match="3 of 4 layers do not fit on the GPU: .* GiB"):
        place(program, LIMITS, TYPES, 3, host_memory=PLENTY, gpu_memory=GPUMemory(1000, PLENTY))


def test_one_memory_for_both_parts(program: Program) -> None:
    """A split model takes no more of it than there is, wherever its parts are computed."""
    whole = weight_bytes(program.calls) + scratch_bytes(program, LIMITS)
    context = LIMITS.context_length * 4 * WIDTH * LAYERS  # bytes of its cache
    table = 4 * WIDTH * WIDTH

    def placed(memory: int, is_shared: bool) -> int:
        card = GPUMemory(PLENTY, PLENTY, is_shared)
        found = place(program, LIMITS, TYPES, 2, host_memory=memory, gpu_memory=card)
        return found.num_blocks[0] * 32 * 4 * WIDTH * LAYERS

    for memory in range(whole + context, whole + 4 * context, 10_001):
        assert placed(memory, True) <= memory - whole
    assert placed(whole + context, False) > context
    with pytest.raises(BackendError, match="do not fit on the GPU"):
        placed(whole + context - table, True)
    placed(whole + context - table, False)


def test_no_buffer_is_larger_than_a_gpu_gives(program: Program) -> None:
    table = 4 * WIDTH * WIDTH
    a_layer = 2 * WIDTH * LIMITS.context_length  # keys of one context
    assert a_layer > table

    def blocks(at_once: int, gpu_layers: int | None = None) -> int:
        card = GPUMemory(PLENTY, at_once)
        found = place(program, LIMITS, TYPES, gpu_layers, host_memory=PLENTY, gpu_memory=card)
        return found.num_blocks[0]

    assert blocks(a_layer) == LIMITS.context_length // 32
    assert blocks(a_layer) < blocks(2 * a_layer)
    with pytest.raises(BackendError, match="a layer's cache of 256 tokens takes .* at once"):
        blocks(a_layer - 1)
    with pytest.raises(BackendError, match="attn_q.weight takes .* at once"):
        blocks(table - 1, 1)


def test_a_table_too_large_for_a_buffer_stays_here() -> None:
    b = Builder()
    x = b.embed(shape(32000, 256, "token_embd.weight"))
    for layer in range(LAYERS):
        x = b.matmul(x, shape(256, 256, f"blk.{layer}.attn_q.weight"))
        x = b.attention(x, x, x, num_heads=1, num_kv_heads=1, scale=1.0)
    small = shape(1000, 256, "output.weight")
    program = b.finish(logits=b.matmul(b.select_outputs(x), small))
    card = GPUMemory(PLENTY, 1 << 20)
    found = place(program, LIMITS, TYPES, None, host_memory=PLENTY, gpu_memory=card)
    assert found.gpu_layers == LAYERS - 1


def shape(rows: int, columns: int, name: str) -> Weight:
    """A matrix of halves that takes no memory, whatever its size."""
    data = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (rows, 2 * columns), (0, 0))
    return Weight(name, 1, rows, columns, data)


@cache
def model(hidden: int, layers: int, matrices: int) -> Program:
    """A decoder whose heads share keys by fours."""
    b = Builder()
    x = b.embed(shape(32000, hidden, "token_embd.weight"))
    for layer in range(layers):
        k, v = (
            b.matmul(x, shape(hidden // 4, hidden, f"blk.{layer}.{name}.weight"))
            for name in ("attn_k", "attn_v")
        )
        x = b.attention(x, k, v, num_heads=hidden // 32, num_kv_heads=hidden // 128, scale=1.0)
        for i in range(matrices):
            x = b.matmul(x, shape(hidden, hidden, f"blk.{layer}.ffn_{i}.weight"))
    return b.finish(logits=b.matmul(b.select_outputs(x), shape(32000, hidden, "output.weight")))


CARDS = (0.5, 1, 2, 4, 8, 24)  # GiB
# Width, layers, matrices; layers on each card at a context of 2,048 and of 32,768 tokens.
MODELS = {
    "0.1 GB": ((512, 30, 4), [30, 30, 30, 30, 30, 30], [23, 30, 30, 30, 30, 30]),
    "1 GB": ((2048, 16, 6), [5, 13, 16, 16, 16, 16], [2, 6, 14, 16, 16, 16]),
    "8 GB": ((4096, 32, 6), [0, 2, 7, 15, 31, 32], [0, 1, 4, 10, 21, 32]),
    "70 GB": ((8192, 80, 6), [0, 0, 1, 3, 7, 25], [0, 0, 1, 2, 6, 19]),
}


@pytest.mark.parametrize("name", MODELS)
def test_cards_of_many_sizes(name: str) -> None:
    """What is put on a card fits with all that it needs, and one layer more would not."""
    sizes, short, long = MODELS[name]
    program = model(*sizes)
    per_token = sizes[0]  # bytes in each layer: a quarter of the width, twice, as halves
    for context, expected in ((2048, short), (32768, long)):
        limits = Limits(context, 2, 32, 512, 8, (None,))
        for card, layers in zip(CARDS, expected, strict=True):
            usable = int(0.9 * card * 2**30)
            memory = {"host_memory": 1 << 40, "gpu_memory": GPUMemory(usable, usable)}
            if layers < sizes[1]:
                with pytest.raises(BackendError, match="do not fit on the GPU"):
                    place(program, limits, TYPES, layers + 1, **memory)
            if not layers:
                with pytest.raises(BackendError, match="do not fit on the GPU"):
                    place(program, limits, TYPES, None, **memory)
                continue
            found = place(program, limits, TYPES, None, **memory)
            assert found.gpu_layers == layers and found.second is not None
            assert found.num_blocks[0] * 32 >= context
            cached = found.num_blocks[0] * 32 * per_token * layers
            scratch = scratch_bytes(found.second, limits)
            assert found.device_weights + cached + scratch <= usable
