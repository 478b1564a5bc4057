"""The reference's recurrences against their definitions, written out in float64."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from edgellm.kernels import reference
from edgellm.kernels.ops import Builder, KeyHeads
from edgellm.kernels.program import Value
from tests.kernels.cpu.programs import Array, pack, storage, stored, streams

Float64 = npt.NDArray[np.float64]
LENGTH = 9


def run(build: Callable[..., Value], *inputs: Array, sizes: tuple[int, ...] = (LENGTH,)) -> Array:
    """What `build(builder, *values)` computes from these rows of one sequence, in such chunks."""
    b = Builder()
    program = b.finish(logits=build(b, *(b.embed(stored(x)) for x in inputs)))
    (stream,) = streams(np.random.default_rng(0), 1, LENGTH, 0)
    stream.ids = np.arange(LENGTH, dtype=np.int32)
    executable = reference.load(program, storage(program, 0))
    return np.concatenate([executable.run(pack([(stream, n)]))["logits"] for n in sizes])


@pytest.mark.parametrize("sizes", [(LENGTH,), (1, 1, 5, 2)])
@pytest.mark.parametrize("kernel", [1, 4])
def test_short_convolution(rng: np.random.Generator, kernel: int, sizes: tuple[int, ...]) -> None:
    x, w, bias = rng.normal(size=(LENGTH, 5)), rng.normal(size=(5, kernel)), rng.normal(size=5)
    got = run(
        lambda b, v: b.short_convolution(v, stored(w), stored(bias), silu=True), x, sizes=sizes
    )
    want = np.empty((LENGTH, 5))
    for channel in range(5):
        whole = np.convolve(x[:, channel], w[channel, ::-1])  # the last tap meets the newest row
        want[:, channel] = whole[:LENGTH] + bias[channel]
    np.testing.assert_allclose(got, want / (1 + np.exp(-want)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sizes", [(LENGTH,), (2, 6, 1)])
@pytest.mark.parametrize("is_scalar", [False, True])
def test_selective_scan(rng: np.random.Generator, is_scalar: bool, sizes: tuple[int, ...]) -> None:
    heads, head_dim, groups, size = 4, 3, 2, 5
    x, dt = rng.normal(size=(LENGTH, heads * head_dim)), rng.uniform(0, 1, (LENGTH, heads))
    b, c = rng.normal(size=(2, LENGTH, groups * size))
    a, d = -rng.uniform(0, 2, (heads, 1 if is_scalar else size)), rng.normal(size=heads)
    got = run(
        lambda r, *v: r.selective_scan(*v, stored(a), stored(d), groups=groups),
        x, dt, b, c, sizes=sizes,
    )  # fmt: skip
    want = np.empty_like(x)
    for channel in range(heads * head_dim):
        head = channel // head_dim
        part = slice(head // 2 * size, (head // 2 + 1) * size)
        h = np.zeros(size)
        for t in range(LENGTH):
            h = np.exp(dt[t, head] * a[head]) * h + dt[t, head] * b[t, part] * x[t, channel]
            want[t, channel] = h @ c[t, part] + d[head] * x[t, channel]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [(LENGTH,), (3, 5, 1)])
@pytest.mark.parametrize("order", ["grouped", "tiled"])
@pytest.mark.parametrize("is_by_head", [False, True])
def test_delta_rule(
    rng: np.random.Generator, is_by_head: bool, order: KeyHeads, sizes: tuple[int, ...]
) -> None:
    heads, key_heads, key_dim, value_dim = 6, 2, 4, 3
    q, k = rng.normal(size=(2, LENGTH, key_heads * key_dim)) / 2
    v, beta = rng.normal(size=(LENGTH, heads * value_dim)), rng.normal(size=(LENGTH, heads))
    dt = rng.uniform(0, 1, (LENGTH, heads if is_by_head else heads * key_dim))
    a = -rng.uniform(0, 2, heads)
    got = run(
        lambda r, *x: r.delta_rule(*x, stored(a), key_heads=key_heads, order=order),
        q, k, v, dt, beta, sizes=sizes,
    )  # fmt: skip
    want = np.empty_like(v)
    for head in range(heads):
        key_head = head // 3 if order == "grouped" else head % 2
        keys = slice(key_head * key_dim, (key_head + 1) * key_dim)
        values = slice(head * value_dim, (head + 1) * value_dim)
        s: Float64 = np.zeros((key_dim, value_dim))
        for t in range(LENGTH):
            own = dt[t, head] if is_by_head else dt[t, head * key_dim : (head + 1) * key_dim, None]
            s = np.exp(a[head] * own) * s
            rate = 1 / (1 + np.exp(-beta[t, head]))
            s = s + rate * np.outer(k[t, keys], v[t, values] - k[t, keys] @ s)
            want[t, values] = q[t, keys] @ s
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [(LENGTH,), (3, 5, 1)])
def test_wkv7(rng: np.random.Generator, sizes: tuple[int, ...]) -> None:
    heads, size = 2, 4
    r, w, k, v, a, b = rng.normal(size=(6, LENGTH, heads * size)) / 2
    got = run(lambda builder, *x: builder.wkv7(*x, heads=heads), r, w, k, v, a, b, sizes=sizes)
    want = np.empty_like(v)
    for head in range(heads):
        own = slice(head * size, (head + 1) * size)
        s: Float64 = np.zeros((size, size))  # (value, key), as the paper has it
        for t in range(LENGTH):
            decay = np.exp(-np.exp(-0.5) / (1 + np.exp(-w[t, own])))
            s = s * decay + np.outer(s @ a[t, own], b[t, own]) + np.outer(v[t, own], k[t, own])
            want[t, own] = s @ r[t, own]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [(LENGTH,), (3, 5, 1)])
@pytest.mark.parametrize("has_bonus", [False, True])
def test_linear_attention(
    rng: np.random.Generator, has_bonus: bool, sizes: tuple[int, ...]
) -> None:
    heads, size = 2, 4
    r, k, v = rng.normal(size=(3, LENGTH, heads * size))
    decay, bonus = rng.uniform(0.1, 1, (LENGTH, heads * size)), rng.normal(size=heads * size)
    weight = stored(bonus) if has_bonus else None
    got = run(
        lambda b, *x: b.linear_attention(*x, weight, heads=heads), r, decay, k, v, sizes=sizes
    )
    want = np.zeros_like(v)
    for head in range(heads):
        own = slice(head * size, (head + 1) * size)
        for t in range(LENGTH):
            for past in range(t + 1):
                kept = np.prod(decay[past + 1 : t + (not has_bonus), own], axis=0)
                if past == t:
                    kept = bonus[own] if has_bonus else 1.0
                want[t, own] += (r[t, own] * kept * k[past, own]).sum() * v[past, own]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_sizes_that_do_not_fit_are_refused() -> None:
    b = Builder()
    x = b.embed(stored(np.ones((2, 6))))
    four, six = stored(np.ones((4, 1))), stored(np.ones((6, 2)))
    for wrong in (
        lambda: b.short_convolution(x, four),
        lambda: b.selective_scan(x, x, x, x, six, six, groups=4),
        lambda: b.delta_rule(x, x, x, x, x, four, key_heads=1),
    ):
        with pytest.raises(ValueError, match="F32: "):
            wrong()
