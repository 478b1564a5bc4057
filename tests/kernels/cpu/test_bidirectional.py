"""Attention that also sees what comes after a token, over several tiles and beside others."""

from dataclasses import replace

import numpy as np
import pytest

from edgellm.kernels import reference
from edgellm.kernels.cpu import CpuBackend
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Program
from tests.kernels.cpu.programs import VOCABULARY, normal, pack, rows_of, storage, streams

HEADS, KV_HEADS, HEAD_DIM = 6, 2, 36
LENGTHS = (600, 1, 257)


def program(window: int | None, alibi: float | None) -> Program:
    rng, b = np.random.default_rng(5), Builder()
    widths = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM)
    q, k, v = (rows_of(b, normal(rng, VOCABULARY, width)) for width in widths)
    hidden = b.attention(
        q,
        k,
        v,
        num_heads=HEADS,
        num_kv_heads=KV_HEADS,
        scale=HEAD_DIM**-0.5,
        window=window,
        alibi=alibi,
        causal=False,
    )
    return b.finish(VOCABULARY, hidden=hidden)


@pytest.mark.parametrize("alibi", [None, 8.0])
@pytest.mark.parametrize("window", [None, 1, 30, 300])
def test_what_comes_after_is_seen(
    backend: CpuBackend, window: int | None, alibi: float | None
) -> None:
    recorded = program(window, alibi)
    assert not recorded.is_causal
    sequences = streams(np.random.default_rng(6), len(LENGTHS), max(LENGTHS), 1)
    blocks = 1 + max(int(t.max()) for s in sequences for t in s.tables)
    batch = pack(list(zip(sequences, LENGTHS, strict=True)))
    stores = [storage(recorded, blocks) for _ in range(2)]
    got = backend.load(recorded, stores[0]).run(batch)["hidden"]
    want = reference.load(recorded, stores[1]).run(batch)["hidden"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    if window == 1 and alibi is None:  # a token alone with itself: its own values
        first, other = got[0].reshape(HEADS, -1), got[1].reshape(HEADS, -1)
        assert np.abs(first[0] - first[2]).max() < 1e-5
        assert np.abs(first - other).max() > 1e-3


def test_only_the_outputs_that_are_wanted_are_read_back(backend: CpuBackend) -> None:
    b = Builder()
    x = rows_of(b, normal(np.random.default_rng(1), VOCABULARY, 8))
    recorded = b.finish(hidden=x, logits=b.select_outputs(x))
    (stream,) = streams(np.random.default_rng(2), 1, 8, 0)
    batch = pack([(stream, 3)], [2])
    for load in (reference.load, backend.load):
        executable = load(recorded, storage(recorded, 0))
        assert executable.run(batch).keys() == {"hidden", "logits"}
        assert executable.run(replace(batch, outputs=frozenset({"logits"}))).keys() == {"logits"}
