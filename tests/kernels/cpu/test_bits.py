"""The same bits whatever the batch, the chunks, the neighbours, the blocks and the threads.

Sums within a block are exact integers; all else is added in an order that the position decides.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from edgellm.kernels.cpu import CpuBackend
from edgellm.kernels.cpu.layout import LARGE_BYTES
from edgellm.kernels.cpu.ops import panel
from edgellm.kernels.formats import Format, by_name, dequantize_rows
from edgellm.kernels.kv import BLOCK_SIZE, KVStorage
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import ATTENTION_TILE, Program, Value, Weight
from tests.kernels.cpu.programs import (
    COMPUTED,
    VOCABULARY,
    Array,
    Rng,
    Stream,
    normal,
    pack,
    random_weight,
    rows_of,
    storage,
    stored,
    streams,
    tokens,
    whole_numbers,
)

COUNTS = (*range(1, 10), 16, 33, 64)
COLUMNS, ROWS = 512, 24 + 5


def assert_same_bits(got: Array, want: Array) -> None:
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


def assert_rows_agree(backends: Mapping[int, CpuBackend], program: Program) -> Array:
    """Runs batches of every size on every team; returns the row of each token id."""
    every = tokens(np.arange(VOCABULARY))
    expected = backends[1].load(program, storage(program, 0)).run(every)["logits"]
    rng = np.random.default_rng(3)
    for backend in backends.values():
        executable = backend.load(program, storage(program, 0))
        for count in COUNTS:
            ids = rng.permutation(VOCABULARY)[:count]
            assert_same_bits(executable.run(tokens(ids))["logits"], expected[ids])
    return expected


@pytest.mark.parametrize("fmt", COMPUTED, ids=lambda fmt: fmt.name)
def test_product_of_each_format(backends: Mapping[int, CpuBackend], fmt: Format) -> None:
    rng = np.random.default_rng(fmt.type_id)
    b = Builder()
    x = normal(rng, VOCABULARY, COLUMNS)
    weight = random_weight(rng, ROWS, COLUMNS, fmt.name)
    assert_rows_agree(backends, b.finish(logits=b.matmul(rows_of(b, x), weight)))


@pytest.mark.parametrize("name", ["F32", "F16", "BF16"])
@pytest.mark.parametrize(("columns", "rows"), [(1053, 29), (5, 1), (512, 12)])
def test_products_of_floats_of_any_size(
    backends: Mapping[int, CpuBackend], name: str, columns: int, rows: int
) -> None:
    rng = np.random.default_rng(8)
    x, weight = whole_numbers(rng, VOCABULARY, columns), random_weight(rng, rows, columns, name)
    b = Builder()
    got = assert_rows_agree(backends, b.finish(logits=b.matmul(rows_of(b, x), weight)))
    numbers = dequantize_rows(weight.format, weight.data).astype(np.float64)
    assert np.all(np.abs(got - x @ numbers.T) <= 1e-5 * (np.abs(x) @ np.abs(numbers).T))


@pytest.mark.parametrize(("name", "columns"), [("Q8_0", 2048), ("F32", 1024)])
def test_every_piece_of_a_large_product_is_done_each_time(
    backends: Mapping[int, CpuBackend], name: str, columns: int
) -> None:
    rng = np.random.default_rng(9)
    weight = random_weight(rng, LARGE_BYTES // by_name(name).row_bytes(columns) + 5, columns, name)
    b = Builder()
    x = rows_of(b, normal(rng, VOCABULARY, columns))
    program = b.finish(logits=b.matmul(x, weight))
    expected = backends[1].load(program, storage(program, 0)).run(tokens(range(VOCABULARY)))
    for backend in backends.values():
        executable = backend.load(program, storage(program, 0))
        for count in (1, 1, 5, VOCABULARY, VOCABULARY, 1):
            got = executable.run(tokens(range(count)))["logits"]
            assert_same_bits(got, expected["logits"][:count])


@pytest.mark.parametrize("name", ["Q5_K", "IQ2_S"])
def test_a_format_needs_no_reader_of_strips(
    backend: CpuBackend, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rng = np.random.default_rng(0)
    b = Builder()
    x = rows_of(b, normal(rng, VOCABULARY, COLUMNS))
    program = b.finish(logits=b.matmul(x, random_weight(rng, ROWS, COLUMNS, name)))
    expected = backend.load(program, storage(program, 0)).run(tokens(range(VOCABULARY)))["logits"]
    monkeypatch.setattr(panel, "strips", lambda isa: {})
    executable = CpuBackend(None, 1).load(program, storage(program, 0))
    for count in (1, 5, VOCABULARY):
        assert_same_bits(executable.run(tokens(range(count)))["logits"], expected[:count])


@pytest.mark.parametrize("fmt", COMPUTED, ids=lambda fmt: fmt.name)
def test_product_of_each_format_is_right(backend: CpuBackend, fmt: Format) -> None:
    rng = np.random.default_rng(fmt.type_id)
    b = Builder()
    x = whole_numbers(rng, VOCABULARY, COLUMNS)
    weight = random_weight(rng, ROWS, COLUMNS, fmt.name)
    program = b.finish(logits=b.matmul(rows_of(b, x), weight))
    got = backend.load(program, storage(program, 0)).run(tokens(range(VOCABULARY)))["logits"]
    numbers = dequantize_rows(fmt, weight.data).astype(np.float64)
    assert np.all(np.abs(got - x @ numbers.T) <= 1e-5 * (np.abs(x) @ np.abs(numbers).T))


@pytest.mark.parametrize("name", ["Q8_0", "F16", "TQ2_0"])
def test_products_of_experts(backends: Mapping[int, CpuBackend], name: str) -> None:
    rng = np.random.default_rng(5)
    experts, top_k, columns = 5, 2, 256
    b = Builder()
    routing = b.moe_route(rows_of(b, normal(rng, VOCABULARY, experts)), top_k, gating="softmax")
    weight = random_weight(rng, experts * ROWS, columns, name)
    x = rows_of(b, normal(rng, VOCABULARY, columns))
    product = b.moe_matmul(x, routing, weight, experts=experts)
    assert_rows_agree(backends, b.finish(logits=b.moe_combine(product, routing)))


@pytest.mark.parametrize("name", ["Q8_0", "F16"])
def test_products_of_heads(backends: Mapping[int, CpuBackend], name: str) -> None:
    rng = np.random.default_rng(6)
    b = Builder()
    weight = random_weight(rng, 3 * ROWS, 64, name)
    x = rows_of(b, normal(rng, VOCABULARY, 3 * 64))
    assert_rows_agree(backends, b.finish(logits=b.head_matmul(x, weight, 3)))


def layer_norms(b: Builder, x: Value, rng: Rng) -> Value:
    weight, bias = stored(normal(rng, x.width)), stored(normal(rng, x.width))
    return b.layer_norm(b.add(x, x), weight, bias, 1e-5)


ROW_OPS: Mapping[str, Callable[[Builder, Value, Rng], Value]] = {
    "layer norm": layer_norms,
    "layer norm of heads": lambda b, x, rng: b.layer_norm(x, None, None, 1e-5, heads=4),
    "gelu": lambda b, x, rng: b.activate(x, "gelu"),
    "xielu": lambda b, x, rng: b.xielu(x, 0.8, 0.8, 0.5),
    "factors of columns": lambda b, x, rng: b.multiply_columns(x, stored(normal(rng, x.width))),
}


@pytest.mark.parametrize("name", ROW_OPS)
def test_ops_on_rows_and_the_product_after_them(
    backends: Mapping[int, CpuBackend], name: str
) -> None:
    rng = np.random.default_rng(7)
    b = Builder()
    y = ROW_OPS[name](b, rows_of(b, normal(rng, VOCABULARY, 96)), rng)
    assert_rows_agree(backends, b.finish(logits=b.matmul(y, random_weight(rng, 29, 96, "Q8_0"))))


def test_an_adapter_leaves_other_sequences_as_they_are(backend: CpuBackend) -> None:
    """Not even a change that is not a number reaches a row whose scale is 0."""
    b = Builder()
    x = normal(np.random.default_rng(7), VOCABULARY, 40)
    x[:, 0] = -0.0
    change = rows_of(b, np.full_like(x, np.nan))
    program = b.finish(logits=b.add_scaled(rows_of(b, x), change, 0))
    work = [(stream, 3) for stream in streams(np.random.default_rng(0), 2, 3, 0)]
    ids = np.concatenate([stream.ids for stream, _ in work])
    batch = replace(pack(work), adapter_scales=np.array([[0], [1]], np.float32))
    got = backend.load(program, storage(program, 0)).run(batch)["logits"]
    assert_same_bits(got[:3], x[ids[:3]])
    assert np.isnan(got[3:]).all()


# ---------------------------------------------------------------- attention

LENGTH = 2 * ATTENTION_TILE + 9
KINDS: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "window": {"window": 100},
    "chunks": {"window": 100, "chunked": True},
    "window of more than a tile": {"window": ATTENTION_TILE + 44},
    "soft-cap": {"softcap": 3.0},
    "slopes": {"alibi": 8.0, "window": 300},
}


@dataclass(frozen=True)
class Way:
    """One way to run the same prompt.

    chunks: tokens per step, the last repeated to the end. neighbours: other sequences in each
    step, one token each. seed: for the order of the blocks.
    """

    chunks: tuple[int, ...]
    threads: int = 2
    neighbours: int = 0
    seed: int = 0

    def sizes(self) -> Iterator[int]:
        left, chunks = LENGTH, iter(self.chunks)
        size = 0
        while left:
            size = min(next(chunks, size), left)
            left -= size
            yield size


WAYS = (
    Way((LENGTH,), threads=1),
    Way((LENGTH,), seed=1, neighbours=3),
    Way((255, 1)),
    Way((256, 1), threads=1, seed=2),
    Way((254, 3, 250), neighbours=1),
    Way((257, 254, 1), seed=3),
    Way((511, 2, 1), threads=1),
    Way((512, 4), neighbours=2),
    Way((7, 64), seed=4),
    Way((1, 2, 3, 5, 8, 13, 21, 34), threads=1, neighbours=1),
)


def attention_program(kind: str, sinks: bool, head_dim: int = 20) -> Program:
    rng = np.random.default_rng(11)
    heads, kv_heads = 6, 2
    b = Builder()
    q = rows_of(b, normal(rng, VOCABULARY, heads * head_dim, scale=3))
    k, v = (rows_of(b, normal(rng, VOCABULARY, kv_heads * head_dim)) for _ in range(2))
    return b.finish(
        logits=b.attention(
            q,
            k,
            v,
            num_heads=heads,
            num_kv_heads=kv_heads,
            scale=head_dim**-0.5,
            sinks=stored(normal(rng, heads, scale=3)) if sinks else None,
            **KINDS[kind],
        )
    )


def prompt_rows(
    backends: Mapping[int, CpuBackend], program: Program, cache: str, way: Way
) -> Array:
    """Outputs of all positions of one prompt, run the given way."""
    prompt = np.random.default_rng(0).integers(0, VOCABULARY, LENGTH).astype(np.int32)
    all_streams = streams(np.random.default_rng(way.seed), 1 + way.neighbours, LENGTH + 1, 1)
    stream, neighbours = all_streams[0], all_streams[1:]
    stream.ids = prompt
    kv = storage(program, len(all_streams) * len(stream.tables[0]), cache, cache)
    executable = backends[way.threads].load(program, kv)
    parts = []
    for size in way.sizes():
        work = [(other, 1) for other in neighbours]
        work.insert(way.neighbours // 2, (stream, size))
        before = way.neighbours // 2
        parts.append(executable.run(pack(work))["logits"][before : before + size])
        for group in program.kv_groups:
            forget(kv, stream, group.window)
    return np.concatenate(parts)


def forget(kv: KVStorage, stream: Stream, window: int | None) -> None:
    """Spoils the blocks that no later query may see, as if they had a new owner."""
    if window is not None:
        past = max(0, stream.computed - window + 1) // BLOCK_SIZE
        for array in (*kv.keys, *kv.values):
            array[stream.tables[0][:past]] = 255 if array.dtype == np.uint8 else np.nan


@pytest.mark.parametrize(
    "cache, head_dim", [("f16", 20), ("f16", 64), ("f32", 64), ("q8_0", 64), ("q4_0", 96)]
)
@pytest.mark.parametrize("sinks", [False, True], ids=["", "sinks"])
@pytest.mark.parametrize("kind", KINDS)
def test_attention_ten_ways(
    backends: Mapping[int, CpuBackend], kind: str, sinks: bool, cache: str, head_dim: int
) -> None:
    program = attention_program(kind, sinks, head_dim)
    expected = prompt_rows(backends, program, cache, WAYS[0])
    assert np.all(np.isfinite(expected))
    for way in WAYS[1:]:
        assert_same_bits(prompt_rows(backends, program, cache, way), expected)


def recurrent_program(is_fine: bool) -> Program:
    """A convolution, a scan and a delta rule, which feed each other; decay by head or finer."""
    rng = np.random.default_rng(12)
    heads, size = 4, 24
    b = Builder()

    def rows(width: int) -> Value:
        return rows_of(b, normal(rng, VOCABULARY, width))

    def rates(columns: int) -> Weight:
        return stored(-rng.uniform(0.01, 1, (heads, columns)))

    x = b.short_convolution(rows(heads * 20), stored(normal(rng, heads * 20, 4)), silu=True)
    dt = b.softplus(rows(heads))
    a = rates(size if is_fine else 1)
    v = b.selective_scan(x, dt, rows(2 * size), rows(2 * size), a, stored(np.ones(heads)), groups=2)
    q, k = (b.rms_norm(rows(2 * size), stored(np.full(size, size**-0.5)), 0, 2) for _ in range(2))
    dt = b.softplus(rows(heads * size)) if is_fine else dt
    return b.finish(logits=b.delta_rule(q, k, v, dt, rows(heads), rates(1), key_heads=2))


@pytest.mark.parametrize("is_fine", [False, True], ids=["by head", "by element"])
def test_recurrences_ten_ways(backends: Mapping[int, CpuBackend], is_fine: bool) -> None:
    program = recurrent_program(is_fine)
    expected = prompt_rows(backends, program, "f32", WAYS[0])
    assert np.all(np.isfinite(expected)) and len(np.unique(expected, axis=0)) == LENGTH
    for way in WAYS[1:]:
        assert_same_bits(prompt_rows(backends, program, "f32", way), expected)


@pytest.mark.parametrize("cache", ["f16", "f32", "q8_0"])
def test_latent_attention_ten_ways(backends: Mapping[int, CpuBackend], cache: str) -> None:
    """One KV head for many query heads, the values in the keys."""
    rng = np.random.default_rng(12)
    heads, head_dim = 20, 96
    b = Builder()
    q = rows_of(b, normal(rng, VOCABULARY, heads * head_dim, scale=3))
    k = rows_of(b, normal(rng, VOCABULARY, head_dim))
    shape = {"num_heads": heads, "num_kv_heads": 1, "value_dim": 72}
    program = b.finish(logits=b.attention(q, k, None, scale=head_dim**-0.5, **shape))
    expected = prompt_rows(backends, program, cache, WAYS[0])
    assert np.all(np.isfinite(expected))
    for way in WAYS[1:]:
        assert_same_bits(prompt_rows(backends, program, cache, way), expected)


@pytest.mark.parametrize("border", [255, 256, 257, 511, 512, 513])
def test_a_chunk_may_end_anywhere(backends: Mapping[int, CpuBackend], border: int) -> None:
    program, cache = attention_program("plain", False), "f16"
    expected = prompt_rows(backends, program, cache, Way((LENGTH,)))
    assert_same_bits(prompt_rows(backends, program, cache, Way((border, LENGTH))), expected)


def test_rows_are_not_all_the_same(backend: CpuBackend) -> None:
    """Guards the tests above: bits that never change would pass them all."""
    program = attention_program("plain", False)
    rows = prompt_rows({2: backend}, program, "f32", Way((LENGTH,)))
    assert len(np.unique(rows, axis=0)) == LENGTH
