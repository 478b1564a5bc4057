"""The same bits whatever the batch and the chunks; and right ones, for every block format."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from edgellm.kernels.formats import FORMATS, Format, by_name, dequantize_rows
from edgellm.kernels.opencl import OpenCLBackend
from edgellm.kernels.opencl.ops import attention
from edgellm.kernels.opencl.variant import VARIANTS
from edgellm.kernels.ops import Builder
from tests.kernels.cpu.programs import (
    VOCABULARY,
    normal,
    random_weight,
    rows_of,
    storage,
    tokens,
    whole_numbers,
)
from tests.kernels.cpu.test_bits import (
    KINDS,
    LENGTH,
    WAYS,
    Way,
    assert_same_bits,
    attention_program,
    prompt_rows,
)

COUNTS = (1, 2, 3, 4, 5, 9, 17, 33, 48, 64)
ROWS, COLUMNS = 29, 512
# Type and head size by kind of attention: each is tried once, not with all of the others.
CACHES = {"plain": ("f32", 20), "window": ("q8_0", 64), "soft-cap": ("q4_0", 32)}


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)
def test_product_of_each_format(backend: OpenCLBackend, fmt: Format) -> None:
    check_products(backend, fmt, (1,))  # each kernel takes a second to build


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["F16", "Q5_1", "Q6_K"])
def test_product_in_batches(backends: Mapping[str, OpenCLBackend], variant: str, name: str) -> None:
    check_products(backends[variant], by_name(name), COUNTS)


@pytest.mark.parametrize("name", ["IQ1_M", "IQ2_S", "IQ3_XXS"])
def test_product_with_a_grid_in_local_memory(
    backends: Mapping[str, OpenCLBackend], name: str
) -> None:
    check_products(backends["gpu"], by_name(name), (1, 17))


def check_products(backend: OpenCLBackend, fmt: Format, counts: tuple[int, ...]) -> None:
    """Values are right, and a row has the same bits in batches of all sizes."""
    rng = np.random.default_rng(fmt.type_id)
    b = Builder()
    x = whole_numbers(rng, VOCABULARY, COLUMNS)
    weight = random_weight(rng, ROWS, COLUMNS, fmt.name)
    program = b.finish(logits=b.matmul(rows_of(b, x), weight))
    executable = backend.load(program, storage(program, 0))
    most = counts[-1]
    got = executable.run(tokens(range(most)))["logits"]
    numbers = dequantize_rows(fmt, weight.data).astype(np.float64)
    x = x[:most]
    assert np.all(np.abs(got - x @ numbers.T) <= 1e-5 * (np.abs(x) @ np.abs(numbers).T))
    for count in counts:
        ids = rng.permutation(most)[:count]
        assert_same_bits(executable.run(tokens(ids))["logits"], got[ids])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", KINDS)
def test_attention_in_chunks(
    backends: Mapping[str, OpenCLBackend], variant: str, kind: str
) -> None:
    cache, head_dim = CACHES.get(kind, ("f16", 20))
    program = attention_program(kind, sinks=kind == "plain", head_dim=head_dim)
    ways = [Way(way.chunks, neighbours=way.neighbours, seed=way.seed) for way in WAYS[1:8:2]]
    only = {2: backends[variant]}
    expected = prompt_rows(only, program, cache, Way((LENGTH,)))
    assert np.all(np.isfinite(expected))
    for way in ways:
        assert_same_bits(prompt_rows(only, program, cache, way), expected)


@pytest.mark.parametrize("variant", VARIANTS)
def test_attention_in_several_launches(
    backends: Mapping[str, OpenCLBackend], monkeypatch: pytest.MonkeyPatch, variant: str
) -> None:
    """As where one for a whole step would take too long."""
    only, program, way = {2: backends[variant]}, attention_program("plain", False), Way((LENGTH,))
    expected = prompt_rows(only, program, "f16", way)
    enqueue, begins = cl.enqueue_nd_range_kernel, []

    def counted(queue: Any, kernel: Any, sizes: Any, local: Any, offset: Any) -> Any:
        begins.append(offset)
        return enqueue(queue, kernel, sizes, local, offset)

    monkeypatch.setattr(cl, "enqueue_nd_range_kernel", counted)
    monkeypatch.setattr(attention, "_PRODUCTS_AT_ONCE", 1)
    monkeypatch.setattr(attention, "_LEAST_AT_ONCE", 64)
    assert_same_bits(prompt_rows(only, program, "f16", way), expected)
    assert begins.count(None) < len(begins) and (0, 16) in begins


@pytest.mark.parametrize(("variant", "name"), [("cpu", "Q5_0"), ("gpu", "Q5_0"), ("gpu", "F16")])
def test_products_of_experts(
    backends: Mapping[str, OpenCLBackend], variant: str, name: str
) -> None:
    """Whichever rows share an expert; from 16 rows on they are sorted by expert where tiles are."""
    rng = np.random.default_rng(5)
    experts, top_k = 5, 2
    b = Builder()
    routing = b.moe_route(rows_of(b, normal(rng, VOCABULARY, experts)), top_k, gating="softmax")
    weight, second = (random_weight(rng, experts * ROWS, COLUMNS, name) for _ in range(2))
    x = rows_of(b, normal(rng, VOCABULARY, COLUMNS))
    wide = b.moe_matmul(x, routing, weight, experts=experts)
    parts = rows_of(b, normal(rng, VOCABULARY, top_k * COLUMNS))
    both = b.add(wide, b.moe_matmul(parts, routing, second, experts=experts))
    program = b.finish(logits=b.moe_combine(both, routing))
    executable = backends[variant].load(program, storage(program, 0))
    expected = executable.run(tokens(range(VOCABULARY)))["logits"]
    for count in COUNTS:
        ids = rng.permutation(VOCABULARY)[:count]
        assert_same_bits(executable.run(tokens(ids))["logits"], expected[ids])


def test_products_of_heads(backends: Mapping[str, OpenCLBackend]) -> None:
    rng = np.random.default_rng(6)
    b = Builder()
    x = rows_of(b, normal(rng, VOCABULARY, 3 * 64))
    weight = random_weight(rng, 3 * ROWS, 64, "Q8_0")
    program = b.finish(logits=b.head_matmul(x, weight, 3))
    executable = backends["gpu"].load(program, storage(program, 0))
    expected = executable.run(tokens(range(VOCABULARY)))["logits"]
    for count in COUNTS:
        assert_same_bits(executable.run(tokens(range(count)))["logits"], expected[:count])
