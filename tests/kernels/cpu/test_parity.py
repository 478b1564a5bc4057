"""Every op against the reference backend, on random shapes, values and batches."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st

from edgellm.kernels import reference
from edgellm.kernels.cpu import CpuBackend
from edgellm.kernels.cpu.lower import LOWERINGS
from edgellm.kernels.kv import SCALED, KVStorage
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Program
from edgellm.kernels.reference import activation
from tests.kernels.cpu.cases import CASES, LENGTH, Maker
from tests.kernels.cpu.programs import (
    VOCABULARY,
    Array,
    Stream,
    normal,
    pack,
    random_weight,
    rows_of,
    storage,
    stored,
    streams,
)

TIGHT = 2e-5  # of the largest number of a row, or of 1: parts of a sum may be 20 times that
INT8 = 1e-2  # of the norm of a row: what is left of activations as int8


@pytest.fixture(scope="module", autouse=True)
def full_precision_gelu() -> Iterator[None]:
    """The reference rounds GELU to halves as ggml does, which other backends need not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(activation, "_half", lambda x: x)
        yield


@pytest.mark.parametrize("op", sorted(LOWERINGS))
@settings(max_examples=12, deadline=None, phases=(Phase.reuse, Phase.generate, Phase.shrink))
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_op(backend: CpuBackend, op: str, data: Any, seed: int) -> None:
    maker = Maker(data, np.random.default_rng(seed), Builder())
    program = maker.b.finish(logits=CASES[op](maker))
    assert op in {call.op for call in program.calls}
    compare(backend, program, maker)


class Loads(Protocol):
    """A backend, whichever."""

    def load(self, program: Program, kv: KVStorage) -> Any: ...


def compare(backend: CpuBackend, program: Program, m: Maker) -> None:
    """A few steps on both backends, and what they leave in the cache."""
    ours, theirs, all_streams = run_both(backend, program, m)
    for mine, other in zip(ours.keys, theirs.keys, strict=True):
        if mine.dtype == np.uint8:
            continue  # an order of its own, too; what is read back is compared above
        blocks, heads, slots, head_dim = mine.shape
        by_dimension = mine.reshape(blocks, heads, head_dim, slots)  # this backend's own order
        np.testing.assert_array_equal(by_dimension.swapaxes(2, 3), other)
    for mine, other in zip(ours.values, theirs.values, strict=True):
        np.testing.assert_array_equal(mine, other)
    for mine, other, state in zip(ours.states, theirs.states, program.state_layers, strict=True):
        for stream in all_streams:
            got, want = (s[stream.slot, :, : state.width] for s in (mine, other))
            assert_close(got, want)


def run_both(
    backend: Loads, program: Program, m: Maker
) -> tuple[KVStorage, KVStorage, list[Stream]]:
    """A few steps of up to three sequences here and on the reference.

    Their storage afterwards, and the sequences.
    """
    all_streams = streams(m.rng, m.pick(1, 3), LENGTH, len(program.kv_groups))
    blocks = 1 + max((int(t.max()) for s in all_streams for t in s.tables), default=0)
    types = m.pick(*cache_types(program))
    ours, theirs = (storage(program, blocks, *types) for _ in range(2))
    executable, specification = backend.load(program, ours), reference.load(program, theirs)
    for _ in range(m.pick(1, 3)):
        work = [(stream, m.pick(1, 5, 33, 230)) for stream in all_streams[:: m.pick(1, -1)]]
        total = sum(count for _, count in work)
        wanted = np.flatnonzero(m.rng.random(total) < m.pick(0.2, 0.0))
        scales = m.rng.choice([0, 0.5, -2], (len(work), program.num_adapters))
        batch = replace(pack(work, wanted), adapter_scales=scales.astype(np.float32))
        got, want = executable.run(batch)["logits"], specification.run(batch)["logits"]
        assert got.shape == want.shape and got.dtype == want.dtype
        assert_close(got, want)
    return ours, theirs, all_streams


def cache_types(program: Program) -> list[tuple[str, str]]:
    """Those that its heads fit."""
    kinds = [("f32", "f32"), ("f16", "f16"), ("f16", "f32")]
    widths = {width for kv in program.kv_layers for width in (kv.head_dim, kv.value_dim)}
    if widths and not any(width % SCALED for width in widths):
        kinds += [("q8_0", "q8_0"), ("q4_0", "q4_0"), ("q8_0", "q4_0"), ("f16", "q4_0")]
    return kinds


def assert_close(got: Array, want: Array) -> None:
    largest = np.abs(want).max(axis=1, keepdims=True)
    worst = np.abs(got - want) / (1 + largest)
    assert np.all(worst <= TIGHT), f"off by {np.max(worst):.1e} of a row's largest, or of 1"


@pytest.mark.parametrize("name", ["Q4_0", "Q5_1", "Q8_0"])
def test_activations_of_any_size_are_kept_to_int8(backend: CpuBackend, name: str) -> None:
    rng = np.random.default_rng(1)
    b = Builder()
    sizes = np.geomspace(1e-6, 1e6, VOCABULARY)[:, None]
    x = rows_of(b, normal(rng, VOCABULARY, 512) * sizes.astype(np.float32))
    program = b.finish(logits=b.matmul(x, stored(normal(rng, 29, 512), name)))
    (stream,) = streams(rng, 1, VOCABULARY, 0)
    batch = pack([(stream, VOCABULARY)])
    got = backend.load(program, storage(program, 0)).run(batch)["logits"]
    want = reference.load(program, storage(program, 0)).run(batch)["logits"]
    error = np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)
    assert error.max() < INT8


@pytest.mark.parametrize("name", ["Q4_0", "Q6_K"])
def test_the_remainder_makes_a_product_as_good_as_with_floats(
    backend: CpuBackend, name: str
) -> None:
    rng = np.random.default_rng(2)
    b = Builder()
    x = rows_of(b, normal(rng, VOCABULARY, 512))
    weight = random_weight(rng, 29, 512, name)
    plain = b.matmul(x, weight)
    program = b.finish(logits=b.add(plain, b.matmul(b.remainder(x), weight)), plain=plain)
    (stream,) = streams(rng, 1, VOCABULARY, 0)
    batch = pack([(stream, VOCABULARY)])
    got = backend.load(program, storage(program, 0)).run(batch)
    want = reference.load(program, storage(program, 0)).run(batch)["logits"]
    errors = {key: np.linalg.norm(rows - want) / np.linalg.norm(want) for key, rows in got.items()}
    assert errors["logits"] < errors["plain"] / 50
