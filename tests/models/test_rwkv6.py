"""RWKV-6, and Qwen with it, against their formulas in float64, one token after another."""

from pathlib import Path

import numpy as np
import pytest

from tests.models.formulas import Float64, numbers, rms, sigmoid, silu, standard, weights_of
from tests.models.recipes.parts import FF, HIDDEN, LAYERS, VOCAB
from tests.models.recipes.recurrent import LOW_RANK, WKV
from tests.models.running import logits_of
from tests.models.tiny import write_tiny

IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
HEADS, KV_HEADS_OF_QWEN = HIDDEN // WKV, 2


def layer_norm(x: Float64, name: str, eps: float = 1e-5, heads: int = 1) -> Float64:
    normed = standard(x.reshape(len(x), heads, -1), eps).reshape(x.shape)
    return normed * numbers(f"{name}.weight", HIDDEN) + numbers(f"{name}.bias", HIDDEN)


def before(x: Float64) -> Float64:
    return np.concatenate([np.zeros((1, HIDDEN)), x[:-1]])


def time_mix(x: Float64, layer: int, is_qwen: bool) -> Float64:
    w, prefix = weights_of(layer), f"blk.{layer}.time_mix"
    back = before(x) - x
    read = x + back * numbers(f"{prefix}_lerp_x.weight", 1, 1, HIDDEN)[0]
    low = np.tanh(read @ w("time_mix_w1", 5 * LOW_RANK, HIDDEN).T).reshape(len(x), 5, LOW_RANK)
    shares = np.einsum("tpr,phr->pth", low, w("time_mix_w2", 5, HIDDEN, LOW_RANK))
    lerp = numbers(f"{prefix}_lerp_fused.weight", 5, 1, 1, HIDDEN)
    xw, xk, xv, xr, xg = x + back * (shares + lerp.reshape(5, 1, HIDDEN))
    kv_heads = KV_HEADS_OF_QWEN if is_qwen else HEADS

    def projected(x: Float64, name: str, heads: int = HEADS) -> Float64:
        y = x @ w(f"time_mix_{name}", heads * WKV, HIDDEN).T
        if is_qwen:
            y = y + numbers(f"{prefix}_{name}.bias", heads * WKV)
        return np.repeat(y.reshape(len(x), heads, WKV), HEADS // heads, axis=1)

    r, k = projected(xr, "receptance"), projected(xk, "key", kv_heads)
    v = projected(xv, "value", kv_heads)
    gate = xg @ w("time_mix_gate", HIDDEN, HIDDEN).T
    inner = np.tanh(xw @ w("time_mix_decay_w1", 2 * LOW_RANK, HIDDEN).T)
    decay = inner @ w("time_mix_decay_w2", HIDDEN, 2 * LOW_RANK).T + w("time_mix_decay", HIDDEN)
    decay = np.exp(-np.exp(decay)).reshape(len(x), HEADS, WKV)
    if is_qwen:
        k = k * (1 - decay)
    y, state = np.empty((len(x), HEADS, WKV)), np.zeros((HEADS, WKV, WKV))
    for t in range(len(x)):
        new = k[t, :, :, None] * v[t, :, None, :]
        after = decay[t, :, :, None] * state + new
        seen = after / np.sqrt(WKV)
        if not is_qwen:
            seen = state + w("time_mix_first", HEADS, WKV)[:, :, None] * new
        y[t], state = np.einsum("hk,hkv->hv", r[t], seen), after
    out = y.reshape(len(x), HIDDEN)
    if is_qwen:
        out = out * sigmoid(gate)
    else:
        out = layer_norm(out, f"{prefix}_ln", 64e-5, HEADS) * silu(gate)
    return out @ w("time_mix_output", HIDDEN, HIDDEN).T


def channel_mix(x: Float64, layer: int) -> Float64:
    w, prefix = weights_of(layer), f"blk.{layer}.channel_mix"
    k, r = (
        x + (before(x) - x) * numbers(f"{prefix}_lerp_{name}.weight", 1, 1, HIDDEN)[0]
        for name in "kr"
    )
    inner = np.maximum(k @ w("channel_mix_key", FF, HIDDEN).T, 0) ** 2
    out = inner @ w("channel_mix_value", HIDDEN, FF).T
    return sigmoid(r @ w("channel_mix_receptance", HIDDEN, HIDDEN).T) * out


def mlp(x: Float64, layer: int) -> Float64:
    w = weights_of(layer)
    gate = x @ w("ffn_gate", FF, HIDDEN).T
    return (silu(gate) * (x @ w("ffn_up", FF, HIDDEN).T)) @ w("ffn_down", HIDDEN, FF).T


def forward(ids: list[int], is_qwen: bool) -> Float64:
    table = numbers("token_embd.weight", VOCAB, HIDDEN)
    x = table[ids] if is_qwen else layer_norm(table[ids], "token_embd_norm")
    for layer in range(LAYERS):
        w, prefix = weights_of(layer), f"blk.{layer}"
        if is_qwen:
            x = x + time_mix(rms(x, w("attn_norm", HIDDEN)), layer, is_qwen)
            x = x + mlp(rms(x, w("ffn_norm", HIDDEN)), layer)
        else:
            x = x + time_mix(layer_norm(x, f"{prefix}.attn_norm"), layer, is_qwen)
            x = x + channel_mix(layer_norm(x, f"{prefix}.attn_norm_2"), layer)
            x = x / 2 if layer % 2 else x
    if is_qwen:
        return rms(x, numbers("output_norm.weight", HIDDEN)) @ table.T
    return layer_norm(x, "output_norm") @ table.T


@pytest.mark.parametrize("name", ["rwkv6", "rwkv6qwen2"])
def test_logits_are_those_of_the_formulas(tmp_path: Path, name: str) -> None:
    got = logits_of(write_tiny(tmp_path, name, format_name="F32"), IDS)
    np.testing.assert_allclose(got, forward(IDS, name != "rwkv6"), rtol=1e-4, atol=1e-4)
