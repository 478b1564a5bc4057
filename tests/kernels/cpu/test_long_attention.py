"""Long contexts of few sequences: threads share out the keys of one row, and the bits stay."""

from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from edgellm.config import cache_dir
from edgellm.kernels.cpu import CpuBackend, layout
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import ATTENTION_TILE, Program
from tests.kernels.cpu.crowd import allow_crowd
from tests.kernels.cpu.programs import (
    VOCABULARY,
    Array,
    normal,
    pack,
    rows_of,
    storage,
    stored,
    streams,
)

LENGTH = 5 * ATTENTION_TILE + 9
NEW = (1, 2, 5, 40)  # tokens of the steps after the prompt


@pytest.fixture(scope="module")
def teams() -> Iterator[Mapping[int, CpuBackend]]:
    """By threads, which may be more than the machine has processors."""
    with pytest.MonkeyPatch.context() as patch:
        allow_crowd(patch)
        made = {threads: CpuBackend(cache_dir(), threads) for threads in (1, 2, 3)}
        assert [backend.threads for backend in made.values()] == [1, 2, 3]
        for backend in made.values():  # a team is made when the first program is loaded
            backend.load(program("plain"), storage(program("plain"), 0))
    yield made
    for backend in made.values():
        backend.close()


KINDS = {
    "plain": {},
    "window": {"window": 3 * ATTENTION_TILE + 3},
    "chunks": {"window": 4 * ATTENTION_TILE, "chunked": True},
    "slopes": {"alibi": 8.0},
    "both ways": {"causal": False},
}


def program(kind: str, heads: int = 6, kv_heads: int = 2, head_dim: int = 64) -> Program:
    rng = np.random.default_rng(11)
    b = Builder()
    q = rows_of(b, normal(rng, VOCABULARY, heads * head_dim, scale=3))
    k, v = (rows_of(b, normal(rng, VOCABULARY, kv_heads * head_dim)) for _ in range(2))
    shape = {"num_heads": heads, "num_kv_heads": kv_heads, "scale": head_dim**-0.5}
    sinks = stored(normal(rng, heads, scale=3))
    return b.finish(logits=b.attention(q, k, v, sinks=sinks, **shape, **KINDS[kind]))


def latent_program() -> Program:
    rng = np.random.default_rng(12)
    heads, head_dim = 70, 64
    b = Builder()
    q = rows_of(b, normal(rng, VOCABULARY, heads * head_dim, scale=3))
    k = rows_of(b, normal(rng, VOCABULARY, head_dim))
    shape = {"num_heads": heads, "num_kv_heads": 1, "value_dim": 40}
    return b.finish(logits=b.attention(q, k, None, scale=head_dim**-0.5, **shape))


def rows_after(
    teams: Mapping[int, CpuBackend], threads: int, program: Program, cache: str, others: int = 0
) -> Array:
    """A prompt by one thread, then steps of the next NEW tokens, beside other sequences of one
    token each step; the outputs of these of the sequence itself.
    """
    total = LENGTH + sum(NEW)
    work = streams(np.random.default_rng(others), 1 + others, total, 1)
    work[0].ids = np.random.default_rng(0).integers(0, VOCABULARY, total).astype(np.int32)
    kv = storage(program, len(work) * len(work[0].tables[0]), cache, cache)
    before = zip(work, (LENGTH, 3 * ATTENTION_TILE, 5), strict=False)
    teams[1].load(program, kv).run(pack(list(before)))
    executable = teams[threads].load(program, kv)
    parts = []
    for count in NEW:
        step = [(work[0], count), *((other, 1) for other in work[1:])]
        parts.append(executable.run(pack(step))["logits"][:count])
    return np.concatenate(parts)


@pytest.mark.parametrize("cache", ["f16", "q8_0"])
@pytest.mark.parametrize("kv_heads", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_threads_share_the_keys_of_a_row(
    teams: Mapping[int, CpuBackend], kind: str, kv_heads: int, cache: str
) -> None:
    """Groups stay whole where each thread has one, and those that are left over are cut."""
    wanted = program(kind, kv_heads=kv_heads)
    expected = rows_after(teams, 1, wanted, cache)
    assert np.all(np.isfinite(expected))
    for threads in (2, 3):
        for others in (0, 2):
            got = rows_after(teams, threads, wanted, cache, others)
            np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


def test_threads_share_latent_keys(teams: Mapping[int, CpuBackend]) -> None:
    expected = rows_after(teams, 1, latent_program(), "f16")
    for threads in (2, 3):
        got = rows_after(teams, threads, latent_program(), "f16")
        np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


def test_keys_are_shared_out_at_all(teams: Mapping[int, CpuBackend]) -> None:
    """Guards the tests above: one thread for each head would pass them all."""
    stream = streams(np.random.default_rng(0), 1, LENGTH + 1, 1)[0]
    cases = ((1, 2, False), (2, 2, False), (3, 2, True), (2, 3, True), (3, 3, False))
    for threads, kv_heads, is_shared in cases:
        stream.computed = LENGTH
        plain = program("plain", kv_heads=kv_heads)
        kv = storage(plain, len(stream.tables[0]), "f16", "f16")
        executable = teams[threads].load(plain, kv)
        executable._parts[:] = 0
        executable.run(pack([(stream, 1)]))
        assert executable._parts.any() == is_shared
        assert not executable._parts[: 8 * layout.PART_COUNTS].any()
