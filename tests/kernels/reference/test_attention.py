"""Rotations and attention of the numpy backend against closed forms in float64."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgellm.kernels import reference
from edgellm.kernels.kv import BLOCK_SIZE, KVStorage
from edgellm.kernels.ops import Builder
from edgellm.kernels.ops.attention import alibi_slopes
from edgellm.kernels.program import Value
from tests.kernels.reference.programs import Array, cached_batch, rows_batch, run, weight


def test_slopes_are_the_papers() -> None:
    np.testing.assert_allclose(alibi_slopes(8, 8.0), 2.0 ** -np.arange(1.0, 9), rtol=1e-6)
    half = 2.0 ** -np.arange(0.5, 8.5)  # every second of 16 for the heads beyond 8
    want = [*(2.0 ** -np.arange(1.0, 9)), *half[[0, 1, 2, 3]]]
    np.testing.assert_allclose(alibi_slopes(12, 8.0), want, rtol=1e-6)


@pytest.mark.parametrize("layout", ["interleaved", "split"])
@pytest.mark.parametrize("rotary", [8, 4])
def test_rope_turns_pairs(rng: np.random.Generator, layout: str, rotary: int) -> None:
    heads, positions = 3, [5, 6, 1000]
    x = rng.normal(size=(3, heads * 8)).astype(np.float32)
    freqs = rng.uniform(0.01, 1, size=rotary // 2).astype(np.float32)
    got = run(
        lambda b, v: b.rope(v, b.rope_table(weight(freqs), magnitude=1.5), heads, layout),
        x,
        batch=rows_batch(3, positions),
    )
    want = x.astype(np.float64).reshape(3, heads, 8)
    turned = want.copy()
    for i, frequency in enumerate(freqs.astype(np.float64)):
        first, second = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + rotary // 2)
        turn = 1.5 * np.exp(1j * np.array(positions) * frequency)[:, None]
        pair = (want[..., first] + 1j * want[..., second]) * turn
        turned[..., first], turned[..., second] = pair.real, pair.imag
    np.testing.assert_allclose(got, turned.reshape(3, -1), rtol=1e-5, atol=1e-5)


def test_a_scale_that_grows_with_the_position() -> None:
    got = run(lambda b, v: b.position_scale(v, 3, 0.1, 1), np.ones((6, 1), np.float32))
    whole = np.array([0, 0, 1, 1, 1, 2])
    np.testing.assert_allclose(got[:, 0], 1 + 0.1 * np.log(1 + whole), rtol=1e-6)


ATTENTION_KINDS = [
    {},
    {"window": 40},
    {"window": 1},
    {"window": 20, "chunked": True},
    {"softcap": 2.0},
    {"sinks": True},
    {"alibi": 8.0},
    {"window": 33, "softcap": 1.5, "sinks": True},
]


@pytest.mark.parametrize("kind", ATTENTION_KINDS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_attention_over_two_sequences_in_scattered_blocks(
    rng: np.random.Generator, kind: dict[str, Any], dtype: type
) -> None:
    heads, kv_heads, dim, scale = 4, 2, 8, 0.7
    sinks = rng.normal(size=heads).astype(np.float32) if kind.get("sinks") else None
    lengths, tables = [70, 45], [[4, 1, 6], [3, 0]]
    parts = [rng.normal(size=(n, (heads + 2 * kv_heads) * dim)) for n in lengths]
    rows = [part.astype(np.float32) for part in parts]

    storage = [np.full((7, kv_heads, BLOCK_SIZE, dim), np.nan, dtype) for _ in range(2)]
    kv = KVStorage((storage[0],), (storage[1],))
    got: list[list[Array]] = [[], []]
    for chunk in ([(0, 50), (0, 44)], [(50, 20), (44, 1)]):
        b = Builder()
        stacked = np.concatenate([r[a : a + n] for r, (a, n) in zip(rows, chunk, strict=True)])
        q, k, v = (
            b.embed(weight(part))
            for part in np.split(stacked, [heads * dim, (heads + kv_heads) * dim], axis=1)
        )
        out = b.attention(
            q,
            k,
            v,
            num_heads=heads,
            num_kv_heads=kv_heads,
            scale=scale,
            window=kind.get("window"),
            chunked=kind.get("chunked", False),
            softcap=kind.get("softcap"),
            alibi=kind.get("alibi"),
            sinks=None if sinks is None else weight(sinks),
        )
        executable = reference.load(b.finish(logits=out), kv)
        result = executable.run(cached_batch(chunk, tables))["logits"]
        for s, part in enumerate(np.split(result, [chunk[0][1]])):
            got[s].append(part)

    for s, r in enumerate(rows):
        want = exact_attention(r, heads, kv_heads, scale, kind, sinks, dtype)
        np.testing.assert_allclose(np.concatenate(got[s]), want, rtol=2e-5, atol=2e-5)


def exact_attention(
    rows: Array,
    heads: int,
    kv_heads: int,
    scale: float,
    kind: dict[str, Any],
    sinks: Array | None,
    dtype: type,
) -> npt.NDArray[np.float64]:
    """One query and one head at a time, in float64; keys and values rounded to `dtype`."""
    n, dim = len(rows), rows.shape[1] // (heads + 2 * kv_heads)
    q, k, v = np.split(rows.reshape(n, -1, dim), [heads, heads + kv_heads], axis=1)
    k, v = (x.astype(dtype).astype(np.float64) for x in (k, v))
    out = np.empty((n, heads, dim))
    for p in range(n):
        window = int(kind.get("window", n))
        first = p // window * window if kind.get("chunked") else max(0, p + 1 - window)
        for h in range(heads):
            group = h * kv_heads // heads
            s = k[first : p + 1, group] @ q[p, h].astype(np.float64) * scale
            if "softcap" in kind:
                s = kind["softcap"] * np.tanh(s / kind["softcap"])
            if "alibi" in kind:
                s += 2.0 ** (-kind["alibi"] * (h + 1) / heads) * np.arange(first - p, 1)
            e = np.exp(s)
            total = e.sum() + (0 if sinks is None else np.exp(np.float64(sinks[h])))
            out[p, h] = e @ v[first : p + 1, group] / total
    return out.reshape(n, -1)


def test_a_window_never_reads_the_blocks_it_has_left(rng: np.random.Generator) -> None:
    storage = [rng.normal(size=(3, 1, BLOCK_SIZE, 8)).astype(np.float32) for _ in range(2)]
    for array in storage:
        array[0] = np.nan
    x = rng.normal(size=(1, 8)).astype(np.float32)
    b = Builder()
    h = b.embed(weight(x))
    out = b.attention(h, h, h, num_heads=1, num_kv_heads=1, scale=1.0, window=BLOCK_SIZE)
    executable = reference.load(b.finish(logits=out), KVStorage((storage[0],), (storage[1],)))
    got = executable.run(cached_batch([(2 * BLOCK_SIZE, 1)], [[0, 1, 2]]))["logits"]
    assert np.isfinite(got).all()


@pytest.mark.parametrize("reach", [0, 3, 20])
def test_relative_attention_sees_one_sequence_and_its_distances(
    rng: np.random.Generator, reach: int
) -> None:
    heads, kv_heads, dim, lengths = 4, 2, 6, [9, 1, 5]
    q, k, v = (rng.normal(size=(15, n * dim)).astype(np.float32) for n in (heads, kv_heads, 2))
    biases = rng.normal(size=(heads, 2 * reach + 1)).astype(np.float32)

    def build(b: Builder, *x: Value) -> Value:
        return b.relative_attention(*x, weight(biases), num_kv_heads=kv_heads, scale=0.5)

    got = run(build, q, k, v, batch=cached_batch([(0, n) for n in lengths], [[0]] * 3))
    for start, length in zip(np.cumsum([0, *lengths]), lengths, strict=False):
        for row in range(length):
            for h in range(heads):
                keys = k[start : start + length].reshape(length, kv_heads, dim)[:, h // 2]
                values = v[start : start + length].reshape(length, kv_heads, dim)[:, h // 2]
                query = q[start + row].reshape(heads, dim)[h].astype(np.float64)
                bias = [biases[h, reach + max(-reach, min(reach, i - row))] for i in range(length)]
                e = np.exp(keys @ query * 0.5 + bias)
                want = e @ values / e.sum()
                part = got[start + row].reshape(heads, dim)[h]
                np.testing.assert_allclose(part, want, rtol=2e-5, atol=2e-5)
