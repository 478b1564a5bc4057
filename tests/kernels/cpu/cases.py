"""A program of each op, over odd sizes, for tests of every backend. Holds no tests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from hypothesis import strategies as st

from edgellm.kernels.ops import Builder, ExpertGroups, UnaryActivation
from edgellm.kernels.program import Value, Weight
from edgellm.kernels.reference import activation
from tests.kernels.cpu.programs import (
    COMPUTED,
    VOCABULARY,
    Rng,
    normal,
    random_weight,
    rows_of,
    stored,
    whole_numbers,
)

LENGTH = 700
FORMAT_NAMES = [fmt.name for fmt in COMPUTED]
FLOAT_NAMES = [fmt.name for fmt in COMPUTED if fmt.unpack is None]


@dataclass
class Maker:
    """What a case makes its program from: choices that hypothesis shrinks, and random numbers."""

    data: Any
    rng: Rng
    b: Builder

    def pick(self, *choices: Any) -> Any:
        return self.data.draw(st.sampled_from(choices))

    def rows(self, width: int, scale: float = 1.0) -> Value:
        return rows_of(self.b, normal(self.rng, VOCABULARY, width, scale=scale))

    def maybe(self, *shape: int) -> Weight | None:
        return stored(normal(self.rng, *shape)) if self.pick(True, False) else None


def embed(m: Maker) -> Value:
    name = m.pick(*FLOAT_NAMES, "Q5_1", "Q6_K")
    columns = 512 if name == "Q6_K" else m.pick(36, 8, 100) if name in FLOAT_NAMES else 96
    return m.b.embed(random_weight(m.rng, VOCABULARY, columns, name), m.pick(1.0, -2.5))


def embed_positions(m: Maker) -> Value:
    name = m.pick("F32", "F16", "Q5_1")
    columns = 96 if name == "Q5_1" else m.pick(36, 8, 100)
    return m.b.embed_positions(random_weight(m.rng, LENGTH, columns, name))


def layer_norm(m: Maker) -> Value:
    heads, size = m.pick(1, 3), m.pick(36, 20, 8, 5)
    shape = m.pick((size,), (heads, size))
    weight = m.maybe(*shape)
    bias = None if weight is None else m.maybe(*shape)
    return m.b.layer_norm(m.rows(heads * size, 30), weight, bias, m.pick(1e-5, 0.5), heads)


def rms_norm(m: Maker) -> Value:
    heads, size = m.pick(1, 3), m.pick(36, 20, 8, 5)
    weight = m.maybe(*m.pick((size,), (heads, size)))
    return m.b.rms_norm(m.rows(heads * size, 30), weight, m.pick(1e-6, 0.5), heads)


def columns(m: Maker) -> Value:
    parts, size = m.pick(1, 3), m.pick(36, 1, 16)
    first = m.pick(0, min(5, size - 1))
    return m.b.columns(m.rows(parts * size), first, m.pick(1, size - first), parts)


def matmul(m: Maker) -> Value:
    name = m.pick(*FORMAT_NAMES)
    columns = m.pick(256, 1280) if name not in FLOAT_NAMES else m.pick(36, 8, 300)
    n = m.pick(8, 29)  # a single product may cancel
    x = rows_of(m.b, whole_numbers(m.rng, VOCABULARY, columns))
    return m.b.matmul(x, random_weight(m.rng, n, columns, name), m.maybe(n), m.maybe(1))


def remainder(m: Maker) -> Value:
    """Of rows that int8 holds whole."""
    return m.b.remainder(rows_of(m.b, whole_numbers(m.rng, VOCABULARY, m.pick(32, 96))))


def add(m: Maker) -> Value:
    width = m.pick(36, 1, 64)
    return m.b.add(m.rows(width), m.rows(width))


def multiply(m: Maker) -> Value:
    return m.b.multiply(m.rows(m.pick(36, 1, 64)), m.pick(0.3, -7.0))


def softplus(m: Maker) -> Value:
    width = m.pick(36, 1, 64)
    return m.b.softplus(m.rows(width, m.pick(0.1, 5, 60)), m.maybe(width))


def softcap(m: Maker) -> Value:
    return m.b.softcap(m.rows(m.pick(36, 1, 64), m.pick(1, 100)), m.pick(30.0, 1.5))


def add_columns(m: Maker) -> Value:
    width = m.pick(36, 1, 64)
    return m.b.add_columns(m.rows(width), stored(normal(m.rng, width)))


def multiply_columns(m: Maker) -> Value:
    width = m.pick(36, 1, 64)
    return m.b.multiply_columns(m.rows(width), stored(normal(m.rng, width)))


def clamp(m: Maker) -> Value:
    return m.b.clamp(m.rows(m.pick(36, 1, 64), 3), m.pick(1.0, 8.0))


def activate(m: Maker) -> Value:
    kind = m.pick(*get_args(UnaryActivation))
    return m.b.activate(m.rows(m.pick(36, 1, 64), m.pick(0.1, 1, 30)), kind)


def xielu(m: Maker) -> Value:
    x = m.rows(m.pick(36, 1, 64), m.pick(0.1, 1, 30))
    return m.b.xielu(x, m.pick(0.8, 2.0), m.pick(0.3, 1.3), 0.5)


def gated(m: Maker) -> Value:
    width, kind = m.pick(36, 1, 64), m.pick(*activation.UNARY, "swiglu_clamped", "bilinear")
    gate, up = m.rows(width, m.pick(1, 30)), m.rows(width, 4)
    return m.b.gated(gate, up, kind, alpha=1.7, limit=7.0)


def rope_table(m: Maker) -> Value:
    half = m.pick(10, 1, 16)
    return m.b.rope_table(stored(m.rng.uniform(0, 1, half)), m.pick(1.0, 1.2))


def rope(m: Maker) -> Value:
    heads, head_dim, half = m.pick(1, 3), m.pick(36, 40), m.pick(6, 8, 18)
    table = m.b.rope_table(stored(m.rng.uniform(0, 1, half)))
    return m.b.rope(m.rows(heads * head_dim), table, heads, m.pick("split", "interleaved"))


def attention(m: Maker) -> Value:
    kv_heads, shared, head_dim = m.pick(1, 2), m.pick(1, 3, 7), m.pick(20, 64, 36, 5, 96)
    heads, value_dim = kv_heads * shared, m.pick(head_dim, 32, 12)
    latent = m.pick(False, False, True)  # values are the head of the keys
    value_dim = min(value_dim, head_dim) if latent else value_dim
    outputs = [
        m.b.attention(
            m.rows(heads * head_dim, 2),
            m.rows(kv_heads * head_dim, 2),
            None if latent else m.rows(kv_heads * value_dim),
            num_heads=heads,
            num_kv_heads=kv_heads,
            scale=head_dim**-0.5,
            value_dim=value_dim,
            window=m.pick(None, 7, 256, 300),
            chunked=m.pick(False, True),
            softcap=m.pick(None, 2.0, 50.0),
            alibi=m.pick(None, 8.0),
            sinks=m.maybe(heads),
        )
        for _ in range(2)
    ]
    return m.b.add(*outputs)


def relative_attention(m: Maker) -> Value:
    kv_heads, shared, reach = m.pick(1, 2), m.pick(1, 3), m.pick(0, 1, 16, 500)
    heads, head_dim, value_dim = kv_heads * shared, m.pick(20, 64, 5), m.pick(32, 12, 7)
    return m.b.relative_attention(
        m.rows(heads * head_dim, 2),
        m.rows(kv_heads * head_dim),
        m.rows(kv_heads * value_dim),
        stored(normal(m.rng, heads, 2 * reach + 1, scale=3)),
        num_kv_heads=kv_heads,
        scale=m.pick(1.0, 0.3),
    )


def position_scale(m: Maker) -> Value:
    return m.b.position_scale(m.rows(m.pick(36, 1)), m.pick(1, 10, 300), 0.1, m.pick(0, 1))


def concat_heads(m: Maker) -> Value:
    heads, first, second = m.pick(1, 3), m.pick(1, 8, 27), m.pick(16, 5)
    return m.b.concat_heads(m.rows(heads * first), m.rows(heads * second), heads)


def head_matmul(m: Maker) -> Value:
    heads, height, name = m.pick(1, 5), m.pick(8, 29), m.pick("Q8_0", "F16", "TQ2_0")
    columns = {"Q8_0": 64, "F16": 36, "TQ2_0": 256}[name]
    part = m.pick(None, slice(0, 5), slice(3, None))
    x = rows_of(m.b, whole_numbers(m.rng, VOCABULARY, heads * columns))
    weight = random_weight(m.rng, heads * height, columns, name)
    return m.b.head_matmul(x, weight, heads, part)


def select_outputs(m: Maker) -> Value:
    return m.b.select_outputs(m.rows(m.pick(36, 1, 64)))


def moe_route(m: Maker) -> Value:
    experts, gating = m.pick(5, 16, 1), m.pick("softmax", "sigmoid", "softmax_selected")
    groups = ExpertGroups(4, m.pick(1, 3), m.pick(1, 2)) if experts == 16 else None
    table = normal(m.rng, VOCABULARY, experts, scale=3)
    table[:, -1] = table[:, 0]  # of two equal ones the first goes first
    return m.b.moe_route(
        rows_of(m.b, table),
        m.pick(1, min(3, experts)),
        gating=gating,
        normalize=m.pick(True, False),
        factor=m.pick(1.0, 2.5),
        selection_bias=m.maybe(experts),
        groups=groups,
    )


def moe_matmul(m: Maker) -> Value:
    experts, top_k, n = 5, m.pick(1, 3), m.pick(8, 29)
    name = m.pick("Q8_0", "F16")
    columns = 64 if name == "Q8_0" else m.pick(36, 64)
    below, above = m.pick((0, 0), (0, 5), (3, 0))  # rows that are left out
    weight = random_weight(m.rng, experts * (below + n + above), columns, name)
    routing = m.b.moe_route(m.rows(experts), top_k, gating="softmax")
    width = columns * m.pick(1, top_k)
    x = rows_of(m.b, whole_numbers(m.rng, VOCABULARY, width))
    return m.b.moe_matmul(
        x,
        routing,
        weight,
        experts=experts,
        part=slice(below, below + n),
        bias=m.maybe(experts, n),
        scale=m.maybe(experts),
    )


def moe_combine(m: Maker) -> Value:
    top_k, width = m.pick(1, 3), m.pick(36, 1, 64)
    routing = m.b.moe_route(m.rows(5), top_k, gating="softmax")
    return m.b.moe_combine(m.rows(top_k * width), routing)


def short_convolution(m: Maker) -> Value:
    channels, kernel = m.pick(36, 64, 3), m.pick(4, 1, 3)
    weight = stored(normal(m.rng, channels, kernel))
    x = m.b.short_convolution(m.rows(channels), weight, m.maybe(channels), silu=m.pick(True, False))
    return m.b.short_convolution(x, stored(normal(m.rng, channels, 2)))


def selective_scan(m: Maker) -> Value:
    heads, head_dim, groups = m.pick((6, 1, 1), (4, 5, 2), (2, 8, 1))
    size = m.pick(16, 5, 24)
    return m.b.selective_scan(
        m.rows(heads * head_dim),
        m.b.softplus(m.rows(heads)),
        m.rows(groups * size),
        m.rows(groups * size),
        stored(-m.rng.uniform(0.1, 3, (heads, m.pick(1, size)))),
        stored(normal(m.rng, heads)),
        groups=groups,
    )


def delta_rule(m: Maker) -> Value:
    heads, key_heads, key_dim, value_dim = m.pick(4, 2), m.pick(2, 1), m.pick(16, 5), m.pick(32, 20)
    q, k = (m.b.rms_norm(m.rows(key_heads * key_dim), None, 1e-6, key_heads) for _ in range(2))
    return m.b.delta_rule(
        q,
        m.b.multiply(k, key_dim**-0.5),
        m.rows(heads * value_dim),
        m.b.softplus(m.rows(heads * m.pick(1, key_dim))),
        m.rows(heads),
        stored(-m.rng.uniform(0.1, 3, heads)),
        key_heads=key_heads,
        order=m.pick("grouped", "tiled"),
    )


def scale_heads(m: Maker) -> Value:
    heads = m.pick(1, 3)
    return m.b.scale_heads(m.rows(heads * m.pick(36, 1, 16)), m.rows(heads, 3))


def gaussian_top_k(m: Maker) -> Value:
    return m.b.gaussian_top_k(m.rows(m.pick(36, 100, 5), 30), m.pick(0.0, 1.6))


def linear_attention(m: Maker) -> Value:
    heads, head_dim = m.pick(2, 3), m.pick(16, 20)
    width = heads * head_dim
    r, k, v = (m.rows(width) for _ in range(3))
    decay = m.b.activate(m.rows(width), "sigmoid")
    return m.b.linear_attention(r, decay, k, v, m.maybe(width), heads=heads)


def add_scaled(m: Maker) -> Value:
    width = m.pick(36, 1)
    x = m.b.select_outputs(m.rows(width)) if m.pick(True, False) else m.rows(width)
    change = m.b.select_outputs(m.rows(width)) if x.rows == "outputs" else m.rows(width)
    return m.b.add_scaled(x, change, m.pick(0, 1))


def add_direction(m: Maker) -> Value:
    width = m.pick(36, 1)
    return m.b.add_direction(m.rows(width), stored(normal(m.rng, width)), m.pick(0, 1))


def wkv7(m: Maker) -> Value:
    heads, head_dim = m.pick(2, 3), m.pick(16, 20)
    width = heads * head_dim
    key = m.b.rms_norm(m.rows(width), stored(np.full(head_dim, head_dim**-0.5)), 0, heads)
    rate = m.b.activate(m.rows(width), "sigmoid")
    r, w, k, v = (m.rows(width) for _ in range(4))
    back = m.b.multiply(key, -1.0)
    return m.b.wkv7(r, w, k, v, back, m.b.gated(key, rate, "bilinear"), heads=heads)


CASES: Mapping[str, Callable[[Maker], Value]] = {
    "embed": embed,
    "embed_positions": embed_positions,
    "rms_norm": rms_norm,
    "layer_norm": layer_norm,
    "columns": columns,
    "matmul": matmul,
    "remainder": remainder,
    "add": add,
    "multiply": multiply,
    "softplus": softplus,
    "softcap": softcap,
    "multiply_columns": multiply_columns,
    "add_columns": add_columns,
    "clamp": clamp,
    "activate": activate,
    "xielu": xielu,
    "gated": gated,
    "rope_table": rope_table,
    "rope": rope,
    "store_kv": attention,
    "attention": attention,
    "relative_attention": relative_attention,
    "select_outputs": select_outputs,
    "moe_route": moe_route,
    "moe_matmul": moe_matmul,
    "moe_combine": moe_combine,
    "short_convolution": short_convolution,
    "selective_scan": selective_scan,
    "delta_rule": delta_rule,
    "wkv7": wkv7,
    "linear_attention": linear_attention,
    "scale_heads": scale_heads,
    "gaussian_top_k": gaussian_top_k,
    "add_scaled": add_scaled,
    "add_direction": add_direction,
    "position_scale": position_scale,
    "concat_heads": concat_heads,
    "head_matmul": head_matmul,
}
