"""Decoders against their own forward pass, written out in float64."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.models.formulas import (
    Float64,
    Tensors,
    mixed,
    past,
    rotated,
    sigmoid,
    silu,
    softmax,
)
from tests.models.recipes import RECIPES
from tests.models.recipes.parts import EXPERTS_USED, HEAD_DIM, HEADS, LAYERS, VOCAB, WINDOW
from tests.models.recipes.recurrent import ATTENDS, KDA_DIM, KERNEL
from tests.models.running import logits_of
from tests.models.tiny import write_tiny

IDS = np.random.default_rng(11).integers(0, VOCAB, size=30).tolist()
PAST = past(len(IDS))


def experts(t: Tensors, x: Float64, p: str, kind: str, chosen: list[list[int]]) -> list[Float64]:
    """By token: what each of its chosen experts gives, (chosen, hidden)."""
    gate, up, down = (t.all[f"{p}.ffn_{part}_{kind}.weight"] for part in ("gate", "up", "down"))
    return [
        np.stack([down[e] @ (silu(gate[e] @ row) * (up[e] @ row)) for e in those])
        for row, those in zip(x, chosen, strict=True)
    ]


def softmax_route(t: Tensors, x: Float64, p: str, used: int) -> tuple[list[list[int]], Float64]:
    odds = softmax(t.linear(x, f"{p}.ffn_gate_inp"))
    chosen = np.argsort(-odds, axis=1)[:, :used]
    weights = np.take_along_axis(odds, chosen, axis=1)
    return chosen.tolist(), weights / weights.sum(1, keepdims=True)


def weighed(parts: list[Float64], weights: Float64) -> Float64:
    return np.stack([w @ part for part, w in zip(parts, weights, strict=True)])


def partly_rotated(x: Float64, width: int) -> Float64:
    """The first numbers of each head, by the base that all tiny models have."""
    return np.concatenate([rotated(x[..., :width], 50000.0), x[..., width:]], axis=-1)


def grovemoe(t: Tensors, ids: list[int]) -> Float64:
    """Every expert that is chosen brings the one of its group, which reads the same and weighs the
    same.
    """
    x = t.all["token_embd.weight"][ids]
    for layer in range(LAYERS):
        p = f"blk.{layer}"
        q, k, v = t.heads(t.rms(x, f"{p}.attn_norm"), p)
        q, k = (rotated(t.rms(y, f"{p}.attn_{n}_norm"), 50000.0) for n, y in (("q", q), ("k", k)))
        x = x + t.linear(mixed(q, k, v, PAST), f"{p}.attn_output")
        read = t.rms(x, f"{p}.ffn_norm")
        chosen, weights = softmax_route(t, read, p, 4)
        groups = [[e // 3 for e in those] for those in chosen]
        x = x + weighed(experts(t, read, p, "exps", chosen), weights)
        x = x + 0.5 * weighed(experts(t, read, p, "chexps", groups), weights)
    return t.rms(x, "output_norm")


def lightning(t: Tensors, x: Float64, p: str, layer: int) -> Float64:
    parts = silu(t.linear(x, f"{p}.attn_qkv")).reshape(len(x), HEADS, 3, HEAD_DIM)
    slopes = 2.0 ** (-8 * np.arange(1, HEADS + 1) / HEADS) * (
        1 - layer / (LAYERS - 1 + 1e-5) + 1e-5
    )
    state = np.zeros((HEADS, HEAD_DIM, HEAD_DIM))
    out = []
    for q, k, v in parts.transpose(0, 2, 1, 3):
        state = state * np.exp(-slopes)[:, None, None] + k[:, :, None] * v[:, None]
        out.append(np.einsum("hk,hkv->hv", q, state).reshape(-1))
    y = t.rms(np.stack(out), f"{p}.attn_norm_2") * sigmoid(t.linear(x, f"{p}.attn_gate"))
    return t.linear(y, f"{p}.attn_output")


def minimax_01(t: Tensors, ids: list[int]) -> Float64:
    x = t.all["token_embd.weight"][ids]
    for layer in range(LAYERS):
        p = f"blk.{layer}"
        read = t.rms(x, f"{p}.attn_norm")
        if layer in ATTENDS:
            q, k, v = t.heads(read, p)
            y = mixed(partly_rotated(q, 16), partly_rotated(k, 16), v, PAST)
            added = t.linear(y, f"{p}.attn_output")
        else:
            added = lightning(t, read, p, layer)
        read = t.rms(1.5 * read + added, f"{p}.ffn_norm")
        chosen, weights = softmax_route(t, read, p, EXPERTS_USED)
        x = 1.5 * read + weighed(experts(t, read, p, "exps", chosen), weights)
    return t.rms(x, "output_norm")


def delta_attention(t: Tensors, x: Float64, p: str) -> Float64:
    shape = (len(x), HEADS, KDA_DIM)

    def convolved(part: str) -> Float64:
        taps = t.all[f"{p}.ssm_conv1d_{part}.weight"].reshape(-1, KERNEL)
        y = np.concatenate([np.zeros((KERNEL - 1, len(taps))), t.linear(x, f"{p}.attn_{part}")])
        return silu(sum(y[j : j + len(x)] * taps[:, j] for j in range(KERNEL))).reshape(shape)

    q, k = (y / np.sqrt((y**2).sum(-1, keepdims=True) + 1e-5) for y in map(convolved, "qk"))
    v = convolved("v")
    rate = t.all[f"{p}.ssm_a"].reshape(HEADS, 1)
    steps = (t.linear(x, f"{p}.ssm_f_a") + t.all[f"{p}.ssm_dt.bias"]).reshape(shape)
    decay = np.exp(-3 * sigmoid(rate * steps))
    beta = sigmoid(t.linear(x, f"{p}.ssm_beta"))
    state, out = np.zeros((HEADS, KDA_DIM, KDA_DIM)), []
    for row in range(len(x)):
        state = state * decay[row][:, :, None]
        error = v[row] - np.einsum("hk,hkv->hv", k[row], state)
        state = state + k[row][:, :, None] * (beta[row][:, None] * error)[:, None]
        out.append(np.einsum("hk,hkv->hv", q[row], state) / np.sqrt(KDA_DIM))
    y = t.rms(np.stack(out), f"{p}.ssm_norm").reshape(len(x), -1)
    return t.linear(y * sigmoid(t.linear(x, f"{p}.ssm_g_a")), f"{p}.attn_output")


def gated_latent_attention(t: Tensors, x: Float64, p: str) -> Float64:
    key, value = t.all[f"{p}.attn_k_b.weight"], t.all[f"{p}.attn_v_b.weight"]
    rank, plain = key.shape[1:]
    low = t.rms(t.linear(x, f"{p}.attn_q_a"), f"{p}.attn_q_a_norm")
    q = t.linear(low, f"{p}.attn_q_b").reshape(len(x), HEADS, -1)
    stored = t.linear(x, f"{p}.attn_kv_a_mqa")
    c = t.rms(stored[:, :rank], f"{p}.attn_kv_a_norm")
    k_position = rotated(stored[:, None, rank:], 50000.0, interleaved=True)
    q_position = rotated(q[..., plain:], 50000.0, interleaved=True)
    k_plain = np.einsum("hrp,tr->thp", key, c)
    scores = np.einsum("qhp,khp->hqk", q[..., :plain], k_plain)
    scores += np.einsum("qhp,kp->hqk", q_position, k_position[:, 0])
    weights = softmax(scores / np.sqrt(q.shape[2]) + PAST)
    y = np.einsum("hqk,hvr,kr->qhv", weights, value, c)
    y = y * sigmoid(t.linear(x, f"{p}.attn_gate"))[..., None]
    return t.linear(y.reshape(len(x), -1), f"{p}.attn_output")


def sigmoid_experts(t: Tensors, x: Float64, p: str) -> Float64:
    odds = sigmoid(t.linear(x, f"{p}.ffn_gate_inp"))
    preference = odds + t.all[f"{p}.exp_probs_b.bias"]
    chosen = np.argsort(-preference, axis=1)[:, :EXPERTS_USED]
    weights = 1.5 * np.take_along_axis(odds, chosen, axis=1)
    return weighed(experts(t, x, p, "exps", chosen.tolist()), weights) + mlp(t, x, p, "_shexp")


def mlp(t: Tensors, x: Float64, p: str, kind: str = "") -> Float64:
    gate, up = (t.linear(x, f"{p}.ffn_{part}{kind}") for part in ("gate", "up"))
    return t.linear(silu(gate) * up, f"{p}.ffn_down{kind}")


def bailingmoe3(t: Tensors, ids: list[int]) -> Float64:
    x = t.all["token_embd.weight"][ids]
    for layer in range(LAYERS):
        p = f"blk.{layer}"
        mixer = gated_latent_attention if layer in ATTENDS else delta_attention
        x = x + mixer(t, t.rms(x, f"{p}.attn_norm"), p)
        x = x + (sigmoid_experts if layer else mlp)(t, t.rms(x, f"{p}.ffn_norm"), p)
    return t.rms(x, "output_norm")


def squared_relu(x: Float64) -> Float64:
    return np.maximum(x, 0) ** 2


def bitnet(t: Tensors, ids: list[int], activation: Callable[[Float64], Float64] = silu) -> Float64:
    """A norm more in each block, before its last product."""
    x = t.all["token_embd.weight"][ids]
    for layer in range(LAYERS):
        p = f"blk.{layer}"
        q, k, v = t.heads(t.rms(x, f"{p}.attn_norm"), p)
        y = mixed(rotated(q, 50000.0), rotated(k, 50000.0), v, PAST)
        x = x + t.linear(t.rms(y, f"{p}.attn_sub_norm"), f"{p}.attn_output")
        read = t.rms(x, f"{p}.ffn_norm")
        inner = activation(t.linear(read, f"{p}.ffn_gate")) * t.linear(read, f"{p}.ffn_up")
        x = x + t.linear(t.rms(inner, f"{p}.ffn_sub_norm"), f"{p}.ffn_down")
    return t.rms(x, "output_norm")


def clamped(gate: Float64, up: Float64, limit: float) -> Float64:
    """silu(gate) * up, the first at most the limit and the second within it; 0 is none."""
    limit = limit or np.inf
    return np.minimum(silu(gate), limit) * np.clip(up, -limit, limit)


def step35(t: Tensors, ids: list[int]) -> Float64:
    """Layers that see all rotate half as much; a number gates each head's result."""
    keys, near = RECIPES["step35"].keys, past(len(ids), WINDOW)
    x = t.all["token_embd.weight"][ids]
    for layer in range(LAYERS):
        p, is_local = f"blk.{layer}", keys["attention.sliding_window_pattern"][layer]
        read = t.rms(x, f"{p}.attn_norm")
        q, k, v = t.heads(read, p)
        q, k = (t.rms(y, f"{p}.attn_{n}_norm") for n, y in (("q", q), ("k", k)))
        if is_local:
            y = mixed(rotated(q, 10000.0), rotated(k, 10000.0), v, near)
        else:
            half = HEAD_DIM // 2
            y = mixed(partly_rotated(q, half), partly_rotated(k, half), v, PAST)
        y = y * np.repeat(sigmoid(t.linear(read, f"{p}.attn_gate")), HEAD_DIM, axis=1)
        x = x + t.linear(y, f"{p}.attn_output")
        x = x + clamped_experts(
            t,
            t.rms(x, f"{p}.ffn_norm"),
            p,
            keys["swiglu_clamp_exp"][layer],
            keys["swiglu_clamp_shexp"][layer],
        )
    return t.rms(x, "output_norm")


def clamped_experts(t: Tensors, x: Float64, p: str, limit: float, shared: float) -> Float64:
    odds = sigmoid(t.linear(x, f"{p}.ffn_gate_inp"))
    gate, up = (t.linear(x, f"{p}.ffn_{part}_shexp") for part in ("gate", "up"))
    out = t.linear(clamped(gate, up, shared), f"{p}.ffn_down_shexp")
    gates, ups, downs = (t.all[f"{p}.ffn_{part}_exps.weight"] for part in ("gate", "up", "down"))
    for row, odd in enumerate(odds):
        for e in np.argsort(-odd - t.all[f"{p}.exp_probs_b.bias"])[:EXPERTS_USED]:
            inner = clamped(gates[e] @ x[row], ups[e] @ x[row], limit)
            out[row] += 1.5 * odd[e] * (downs[e] @ inner)
    return out


FORWARDS: Mapping[str, Callable[[Tensors, list[int]], Float64]] = {
    "bailingmoe3": bailingmoe3,
    "bitnet": bitnet,
    "bitnet-b1.58": lambda t, ids: bitnet(t, ids, squared_relu),
    "grovemoe": grovemoe,
    "minimax-01": minimax_01,
    "step35": step35,
}


@pytest.mark.parametrize("name", FORWARDS)
def test_the_program_is_the_family_s_own(tmp_path: Path, name: str) -> None:
    path = write_tiny(tmp_path, name, format_name="F32")
    tensors = Tensors(path)
    want = FORWARDS[name](tensors, IDS) @ tensors.all["token_embd.weight"].T
    got = logits_of(path, IDS)
    assert ((got - want) ** 2).mean() <= 1e-9 * (want**2).mean()
