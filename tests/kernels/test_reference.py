"""Each op of the numpy backend against its closed form in float64."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgellm.errors import BackendError
from edgellm.kernels import reference
from edgellm.kernels.batch import Batch
from edgellm.kernels.formats import by_name, dequantize_rows, quantize_rows
from edgellm.kernels.kv import BLOCK_SIZE, KVStorage
from edgellm.kernels.ops import Builder, ExpertGroups
from edgellm.kernels.ops.attention import alibi_slopes
from edgellm.kernels.ops.base import Recording
from edgellm.kernels.program import OpCall, Value, Weight
from edgellm.kernels.reference import common
from edgellm.kernels.reference.activation import UNARY

Array = npt.NDArray[np.float32]
NO_KV = KVStorage((), ())


def weight(values: npt.ArrayLike, format_name: str = "F32") -> Weight:
    """A matrix, or a vector as one row, in the named format."""
    fmt = by_name(format_name)
    rows = np.atleast_2d(np.asarray(values, np.float32))
    return Weight("w", fmt.type_id, len(rows), rows.shape[1], quantize_rows(fmt, rows))


def rows_batch(count: int, positions: list[int] | None = None) -> Batch:
    """`count` rows of one sequence without a cache; row t embeds row t of a table."""
    where = np.array(positions or range(count), np.int32)
    return Batch(
        input_ids=np.arange(count, dtype=np.int32),
        positions=where,
        query_start=np.array([0, count], np.int32),
        seq_lens=where[-1:] + 1,
        slot_mapping=np.zeros((0, count), np.int64),
        block_tables=np.zeros((0, 1, 0), np.int32),
        state_slots=np.zeros(1, np.int32),
        logits_rows=np.arange(count, dtype=np.int32),
    )


def run(build: Callable[..., Value], *inputs: Array, batch: Batch | None = None) -> Array:
    """What `build(builder, *values)` computes from these inputs of equal row count."""
    b = Builder()
    program = b.finish(logits=build(b, *(b.embed(weight(x)) for x in inputs)))
    used = batch or rows_batch(len(inputs[0]))
    return np.asarray(reference.load(program, NO_KV).run(used)["logits"])


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_an_op_it_does_not_have_is_named() -> None:
    b = Builder()
    program = b.finish(logits=b.embed(weight(np.ones((2, 4)))))
    strange = replace(program, calls=(*program.calls, OpCall("tea", (), (), None, {})))
    with pytest.raises(BackendError, match="'tea'"):
        reference.load(strange, NO_KV)


def test_embedding_rows_are_scaled(rng: np.random.Generator) -> None:
    table = rng.normal(size=(3, 32)).astype(np.float32)
    b = Builder()
    stored = weight(table, "Q8_0")
    executable = reference.load(b.finish(logits=b.embed(stored, scale=2.0)), NO_KV)
    got = executable.run(replace(rows_batch(2), input_ids=np.array([2, 0], np.int32)))["logits"]
    np.testing.assert_array_equal(got, 2 * dequantize_rows(stored.format, stored.data)[[2, 0]])


@pytest.mark.parametrize("heads", [1, 4])
def test_rms_norm_of_each_part(rng: np.random.Generator, heads: int) -> None:
    x = rng.normal(size=(3, 32)).astype(np.float32) * 100
    w = rng.normal(size=32 // heads).astype(np.float32)
    got = run(lambda b, v: b.rms_norm(v, weight(w), 1e-2, heads), x)
    parts = x.astype(np.float64).reshape(3, heads, -1)
    want = parts / np.sqrt((parts**2).mean(-1, keepdims=True) + 1e-2) * w
    np.testing.assert_allclose(got, want.reshape(3, 32), rtol=1e-5)


def test_rms_norm_may_have_a_weight_for_each_part(rng: np.random.Generator) -> None:
    x, w = rng.normal(size=(3, 32)).astype(np.float32), rng.normal(size=(4, 8)).astype(np.float32)
    got = run(lambda b, v: b.rms_norm(v, weight(w), 1e-2, 4), x)
    plain = run(lambda b, v: b.rms_norm(v, None, 1e-2, 4), x)
    np.testing.assert_allclose(got, plain * w.reshape(-1), rtol=1e-6)


@pytest.mark.parametrize("heads, rows", [(1, 1), (4, 1), (4, 4)])
def test_layer_norm_of_each_part(rng: np.random.Generator, heads: int, rows: int) -> None:
    x = rng.normal(3, 100, size=(3, 32)).astype(np.float32)
    w, bias = rng.normal(size=(2, rows, 32 // heads)).astype(np.float32)
    got = run(lambda b, v: b.layer_norm(v, weight(w), weight(bias), 1e-2, heads), x)
    parts = x.astype(np.float64).reshape(3, heads, -1)
    centred = parts - parts.mean(-1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-2)
    plain = run(lambda b, v: b.layer_norm(v, None, None, 1e-2, heads), x)
    np.testing.assert_allclose(plain, want.reshape(3, 32), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got, (want * w + bias).reshape(3, 32), rtol=1e-5, atol=1e-5)


def test_positions_are_looked_up_by_place(rng: np.random.Generator) -> None:
    table = rng.normal(size=(9, 4)).astype(np.float32)
    got = run(
        lambda b, v: b.embed_positions(weight(table)),
        np.zeros((3, 4), np.float32),
        batch=rows_batch(3, [8, 0, 5]),
    )
    np.testing.assert_array_equal(got, table[[8, 0, 5]])


def test_columns_have_factors_and_numbers_limits(rng: np.random.Generator) -> None:
    x, factors = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    np.testing.assert_array_equal(
        run(lambda b, v: b.multiply_columns(v, weight(factors)), x), x * factors
    )
    np.testing.assert_array_equal(run(lambda b, v: b.clamp(v, 0.5), x), np.clip(x, -0.5, 0.5))


UNARY_FORMS: dict[str, Callable[[float], float]] = {
    "silu": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu_quick": lambda x: x / (1 + math.exp(-1.702 * x)),
    "relu": lambda x: max(x, 0.0),
    "relu2": lambda x: max(x, 0.0) ** 2,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "gompertz": lambda x: math.exp(-math.exp(x)),
}


@pytest.mark.parametrize("name", UNARY)
def test_activations_alone(name: str) -> None:
    x = np.linspace(-12, 12, 97, dtype=np.float32)[None]
    got = run(lambda b, v: b.activate(v, name), x)
    tolerance = 2e-3 if name == "gelu_tanh" else 1e-6  # that one goes through halves
    want = [[UNARY_FORMS[name](float(value)) for value in x[0]]]
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_xielu_is_a_parabola_above_and_an_exponential_below() -> None:
    x = np.array([[-5, -1, -0.001, 0, 0.001, 1, 5]], np.float32)
    got = run(lambda b, v: b.xielu(v, 0.8, 1.2, 0.5), x)
    wide = x.astype(np.float64)
    want = np.where(x > 0, 0.8 * wide**2, 1.2 * (np.expm1(wide) - wide)) + 0.5 * wide
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)


def test_slopes_are_the_papers() -> None:
    np.testing.assert_allclose(alibi_slopes(8, 8.0), 2.0 ** -np.arange(1.0, 9), rtol=1e-6)
    half = 2.0 ** -np.arange(0.5, 8.5)  # every second of 16 for the heads beyond 8
    want = [*(2.0 ** -np.arange(1.0, 9)), *half[[0, 1, 2, 3]]]
    np.testing.assert_allclose(alibi_slopes(12, 8.0), want, rtol=1e-6)


def test_columns_of_each_part(rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 12)).astype(np.float32)
    np.testing.assert_array_equal(run(lambda b, v: b.columns(v, 3, 5), x), x[:, 3:8])
    got = run(lambda b, v: b.columns(v, 1, 2, parts=3), x)
    np.testing.assert_array_equal(got, x[:, [1, 2, 5, 6, 9, 10]])
    with pytest.raises(ValueError, match="columns 2 to 5 of 4"):
        run(lambda b, v: b.columns(v, 2, 3, parts=3), x)


def test_rms_norm_without_a_weight_keeps_epsilon_inside_the_root() -> None:
    got = run(lambda b, v: b.rms_norm(v, None, 4.0), np.zeros((1, 4), np.float32))
    np.testing.assert_array_equal(got, 0)
    got = run(lambda b, v: b.rms_norm(v, None, 3.0), np.ones((1, 4), np.float32))
    np.testing.assert_allclose(got, 0.5)


@pytest.mark.parametrize("format_name", ["F32", "F16", "Q8_0"])
def test_matmul_scales_before_the_bias(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, format_name: str
) -> None:
    monkeypatch.setattr(common, "STRIP_WEIGHTS", 100)  # strips of three rows
    x = rng.normal(size=(4, 32)).astype(np.float32)
    w = weight(rng.normal(size=(8, 32)).astype(np.float32), format_name)
    bias, scale = rng.normal(size=8).astype(np.float32), np.array([3.0], np.float32)
    stored = dequantize_rows(w.format, w.data).astype(np.float64)
    got = run(lambda b, v: b.matmul(v, w, weight(bias), weight(scale)), x)
    np.testing.assert_allclose(got, 3 * (x @ stored.T) + bias, rtol=1e-4, atol=1e-5)
    got = run(lambda b, v: b.matmul(v, w, scale=weight(scale)), x)
    np.testing.assert_allclose(got, 3 * (x @ stored.T), rtol=1e-4, atol=1e-5)


def test_add_multiply_and_softcap(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(2, 3, 8)).astype(np.float32)
    got = run(lambda b, v, w: b.softcap(b.multiply(b.add(v, w), 40.0), 30.0), x, y)
    want = 30 * np.tanh((x.astype(np.float64) + y) * 40 / 30)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_activations(rng: np.random.Generator) -> None:
    gate, up = rng.normal(size=(2, 5, 64)).astype(np.float32) * 8
    g, u = gate.astype(np.float64), up.astype(np.float64)

    got = run(lambda b, v, w: b.gated(v, w, "silu"), gate, up)
    np.testing.assert_allclose(got, g / (1 + np.exp(-g)) * u, rtol=1e-5, atol=1e-6)

    got = run(lambda b, v, w: b.gated(v, w, "gelu_tanh"), gate, up)
    tanh = np.tanh(np.sqrt(2 / np.pi) * (g + 0.044715 * g**3))
    np.testing.assert_allclose(got, g / 2 * (1 + tanh) * u, rtol=2e-3, atol=2e-3)

    got = run(lambda b, v, w: b.gated(v, w, "sigmoid"), gate, up)
    np.testing.assert_allclose(got, u / (1 + np.exp(-g)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(
        run(lambda b, v, w: b.gated(v, w, "bilinear"), gate, up), gate * up
    )

    got = run(lambda b, v, w: b.gated(v, w, "swiglu_clamped", alpha=1.702, limit=7.0), gate, up)
    g, u = np.minimum(g, 7), np.clip(u, -7, 7)
    np.testing.assert_allclose(got, g / (1 + np.exp(-1.702 * g)) * (u + 1), rtol=1e-5, atol=1e-5)


def test_softplus(rng: np.random.Generator) -> None:
    x = np.concatenate([rng.normal(size=(1, 16)), [[-80, -20, 0, 20, 80, 1e30] + [1] * 10]])
    bias = rng.normal(size=16)
    got = run(lambda b, v: b.softplus(v, weight(bias)), x.astype(np.float32))
    np.testing.assert_allclose(got, np.logaddexp(0, x + bias), rtol=1e-5)


def test_activations_of_extreme_gates_are_finite() -> None:
    gate = np.array([[-1e18, -200.0, 200.0, 1e18]], np.float32)
    for activation in (*UNARY, "swiglu_clamped"):
        got = run(lambda b, v, w, a=activation: b.gated(v, w, a), gate, np.ones_like(gate))
        assert np.isfinite(got).all(), activation


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


def test_select_outputs_and_named_outputs(rng: np.random.Generator) -> None:
    x = rng.normal(size=(4, 8)).astype(np.float32)
    b = Builder()
    hidden = b.embed(weight(x))
    program = b.finish(hidden=hidden, logits=b.select_outputs(b.multiply(hidden, 2.0)))
    batch = replace(rows_batch(4), logits_rows=np.array([1, 3], np.int32))
    outputs = reference.load(program, NO_KV).run(batch)
    np.testing.assert_array_equal(outputs["hidden"], x)
    np.testing.assert_array_equal(outputs["logits"], 2 * x[[1, 3]])


def test_gates_that_few_pass(rng: np.random.Generator) -> None:
    x = rng.normal(3, 5, size=(4, 1000)).astype(np.float32)
    got = run(lambda b, v: b.gaussian_top_k(v, 1.6448536), x)
    cut = x.mean(axis=1, keepdims=True) + 1.6448536 * x.std(axis=1, keepdims=True)
    np.testing.assert_allclose(got, np.maximum(x - cut, 0), rtol=1e-4, atol=1e-4)
    assert 0.03 < (got > 0).mean() < 0.07


def test_heads_by_factors_of_their_own() -> None:
    x, factors = np.arange(12.0).reshape(2, 6), np.array([[1, 10, 100], [2, 0, -1]], np.float64)
    got = run(lambda b, *v: b.scale_heads(*v), x, factors)
    np.testing.assert_array_equal(got, [[0, 1, 20, 30, 400, 500], [12, 14, 0, 0, -10, -11]])


def test_every_op_of_the_builder_is_there() -> None:
    b = Builder()
    vector, matrix = weight(np.ones(8)), weight(np.ones((8, 8)))
    x = b.layer_norm(b.add(b.embed(matrix), b.embed_positions(matrix)), vector, None, 1e-5)
    x = b.xielu(
        b.activate(b.clamp(b.add_columns(b.multiply_columns(x, vector), vector), 1.0), "relu"),
        1.0,
        1.0,
        1.0,
    )
    x = b.softcap(b.multiply(b.add(b.rms_norm(x, vector, 1e-5), b.matmul(x, matrix)), 1.0), 1.0)
    x = b.rope(b.gated(x, x, "silu"), b.rope_table(weight(np.ones(4))), 1, "split")
    x = b.attention(x, x, x, num_heads=1, num_kv_heads=1, scale=1.0)
    routing = b.moe_route(x, 2, gating="softmax")
    x = b.moe_combine(b.moe_matmul(x, routing, matrix, experts=4), routing)
    x = b.softplus(b.short_convolution(x, weight(np.ones((2, 3)))))
    x = b.selective_scan(x, x, x, x, weight(np.ones((2, 1))), weight(np.ones(2)))
    x = b.wkv7(x, x, x, x, x, x, heads=2)
    x = b.delta_rule(x, x, x, x, x, weight(np.ones(2)), key_heads=2)
    x = b.linear_attention(x, x, x, x, heads=2)
    x = b.scale_heads(b.position_scale(b.gaussian_top_k(x, 1.0), 10, 0.1), b.columns(x, 0, 1))
    x = b.concat_heads(x, x, 1)
    x = b.head_matmul(b.concat_heads(x, x, 1), matrix, 1)
    x = b.add_direction(b.add_scaled(x, b.remainder(x), 0), vector, 0)
    b.select_outputs(b.columns(x, 0, 2))
    families = [family for family in Builder.__mro__ if issubclass(family, Recording)]
    methods = {name for family in families[1:-1] for name in vars(family) if name[0] != "_"}
    assert {call.op for call in b.calls} == methods | {"store_kv"} == set(reference.OPS)


def cached_batch(lengths: list[tuple[int, int]], tables: list[list[int]]) -> Batch:
    """Per sequence (tokens before, tokens now), all with one KV group."""
    positions = np.concatenate([np.arange(a, a + n) for a, n in lengths]).astype(np.int32)
    owner = np.repeat(np.arange(len(lengths)), [n for _, n in lengths])
    blocks = np.zeros((1, len(tables), max(map(len, tables))), np.int32)
    for s, table in enumerate(tables):
        blocks[0, s, : len(table)] = table
    slots = blocks[0, owner, positions // BLOCK_SIZE] * BLOCK_SIZE + positions % BLOCK_SIZE
    return Batch(
        input_ids=np.arange(len(positions), dtype=np.int32),
        positions=positions,
        query_start=np.cumsum([0] + [n for _, n in lengths]).astype(np.int32),
        seq_lens=np.array([a + n for a, n in lengths], np.int32),
        slot_mapping=slots[None].astype(np.int64),
        block_tables=blocks,
        state_slots=np.arange(len(lengths), dtype=np.int32),
        logits_rows=np.arange(len(positions), dtype=np.int32),
    )


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


@pytest.mark.parametrize("gating", ["softmax", "sigmoid", "softmax_selected"])
@pytest.mark.parametrize("normalize", [False, True])
def test_routing(rng: np.random.Generator, gating: str, normalize: bool) -> None:
    scores = rng.normal(size=(6, 5)).astype(np.float32)
    bias = np.array([0, 0, 0, 0, 9], np.float32)  # always chosen, never weighed
    got = run(
        lambda b, v: b.moe_route(
            v, 3, gating=gating, normalize=normalize, factor=2.5, selection_bias=weight(bias)
        ),
        scores,
    )
    s = scores.astype(np.float64)
    shape = {
        "softmax": lambda z: np.exp(z) / np.exp(z).sum(),
        "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
        "softmax_selected": lambda z: z,
    }[gating]
    for row, found in zip(s, got, strict=True):
        p = shape(row)
        chosen = sorted(range(5), key=lambda e: (-(p + bias)[e], e))[:3]
        weights = p[chosen]
        if gating == "softmax_selected":
            weights = np.exp(weights) / np.exp(weights).sum()
        if normalize:
            weights = weights / weights.sum()
        assert found[:3].tolist() == chosen and chosen[0] == 4
        np.testing.assert_allclose(found[3:], 2.5 * weights, rtol=1e-5)


@pytest.mark.parametrize("best", [1, 2])
def test_experts_are_chosen_from_the_best_groups(best: int) -> None:
    # The single best expert is in group 0, the best two together in group 2.
    scores = np.array([[9, 0, 1, 2, 8, 7, 5, 5]], np.float32)
    groups = ExpertGroups(4, 1, best)
    got = run(lambda b, v: b.moe_route(v, 2, gating="softmax_selected", groups=groups), scores)
    assert got[0, :2].tolist() == ([0, 1] if best == 1 else [4, 5])


def test_weights_too_small_to_normalise_stay_small() -> None:
    scores = np.full((1, 4), -80, np.float32)
    got = run(lambda b, v: b.moe_route(v, 2, gating="sigmoid", normalize=True), scores)
    assert np.all(got[0, 2:] < 1e-3)


def test_equal_scores_go_to_the_lower_expert() -> None:
    got = run(lambda b, v: b.moe_route(v, 2, gating="softmax"), np.ones((1, 6), np.float32))
    assert got[0, :2].tolist() == [0, 1]


def test_a_scale_that_grows_with_the_position() -> None:
    got = run(lambda b, v: b.position_scale(v, 3, 0.1, 1), np.ones((6, 1), np.float32))
    whole = np.array([0, 0, 1, 1, 1, 2])
    np.testing.assert_allclose(got[:, 0], 1 + 0.1 * np.log(1 + whole), rtol=1e-6)


def test_heads_are_cut_joined_and_multiplied_each_alone(rng: np.random.Generator) -> None:
    x = rng.normal(size=(5, 3 * 8)).astype(np.float32)
    w = rng.normal(size=(3, 7, 4)).astype(np.float32)

    def build(b: Builder, v: Value) -> Value:
        low, high = b.columns(v, 0, 4, 3), b.columns(v, 4, 4, 3)
        product = b.head_matmul(high, weight(w.reshape(21, 4)), 3, slice(2, 7))
        return b.concat_heads(low, product, 3)

    parts = x.reshape(5, 3, 8)
    want = np.concatenate([parts[..., :4], np.einsum("hnk,thk->thn", w[:, 2:], parts[..., 4:])], 2)
    np.testing.assert_allclose(run(build, x), want.reshape(5, -1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shared_input", [True, False])
def test_expert_products(rng: np.random.Generator, shared_input: bool) -> None:
    experts, height, columns, top_k, tokens = 4, 6, 32, 2, 5
    scores = rng.normal(size=(tokens, experts)).astype(np.float32)
    x = rng.normal(size=(tokens, columns * (1 if shared_input else top_k))).astype(np.float32)
    w = weight(rng.normal(size=(experts * height, columns)).astype(np.float32), "Q8_0")
    bias = rng.normal(size=(experts, height)).astype(np.float32)
    scale = rng.normal(size=experts).astype(np.float32)

    def build(b: Builder, s: Value, v: Value) -> Value:
        routing = b.moe_route(s, top_k, gating="softmax_selected")
        product = b.moe_matmul(
            v, routing, w, experts=experts, bias=weight(bias), scale=weight(scale)
        )
        assert product.width == top_k * height
        return b.moe_combine(product, routing)

    matrices = dequantize_rows(w.format, w.data).astype(np.float64).reshape(experts, height, -1)
    want = np.zeros((tokens, height))
    for t in range(tokens):
        chosen = np.argsort(-scores[t])[:top_k]
        gates = np.exp(scores[t][chosen].astype(np.float64))
        for r, e in enumerate(chosen):
            part = x[t].reshape(-1, columns)[0 if shared_input else r]
            want[t] += gates[r] / gates.sum() * (scale[e] * (matrices[e] @ part) + bias[e])
    np.testing.assert_allclose(run(build, scores, x), want, rtol=1e-4, atol=1e-4)
