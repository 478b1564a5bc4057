"""Gemma 4 against its formulas in float64: heads of two widths, shared keys, inputs of layers, and
experts beside the feed-forward block in one of them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.errors import GGUFError
from edgellm.kernels.reference import activation
from tests.gguf_writer import Tensor
from tests.models.formulas import (
    Float64,
    gelu_tanh,
    mixed,
    numbers,
    past,
    rms,
    rotated,
    weights_of,
)
from tests.models.recipes.parts import (
    CONTEXT,
    EXPERTS,
    EXPERTS_USED,
    FF,
    HEAD_DIM,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    VOCAB,
    WINDOW,
)
from tests.models.running import logits_of
from tests.models.tiny import random_tensor, write_tiny

LOCAL_DIM, PER_LAYER = 16, 32
WINDOWED = (True, True, False, True, True, False)
WITH_EXPERTS = 1
OWN_KEYS = 4  # layers 4 and 5 use those of 3 and 2
LOCAL_SHAPES = {
    "attn_q.weight": (HIDDEN, HEADS * LOCAL_DIM),
    "attn_k.weight": (HIDDEN, KV_HEADS * LOCAL_DIM),
    "attn_v.weight": (HIDDEN, KV_HEADS * LOCAL_DIM),
    "attn_q_norm.weight": (LOCAL_DIM,),
    "attn_k_norm.weight": (LOCAL_DIM,),
    "attn_output.weight": (HEADS * LOCAL_DIM, HIDDEN),
}
IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]


def edit(keys: dict[str, Any], tensors: list[Tensor]) -> None:
    """Windowed layers get narrower heads, others no values; the last two layers no keys."""
    keys |= {
        "gemma4.attention.sliding_window_pattern": np.array(WINDOWED, np.bool_),
        "gemma4.attention.key_length_swa": LOCAL_DIM,
        "gemma4.attention.value_length_swa": LOCAL_DIM,
        "gemma4.rope.dimension_count_swa": LOCAL_DIM,
        "gemma4.rope.freq_base_swa": 1000.0,
        "gemma4.final_logit_softcapping": 5.0,
    }
    kept = []
    for tensor in tensors:
        name, shape = tensor[0], tensor[1]
        _, layer, part = name.split(".", 2) if name.startswith("blk.") else ("", "0", name)
        is_local = WINDOWED[int(layer)]
        if part in ("attn_k.weight", "attn_v.weight", "attn_k_norm.weight"):
            if int(layer) >= OWN_KEYS or (part == "attn_v.weight" and not is_local):
                continue
        if is_local:
            shape = LOCAL_SHAPES.get(part, shape)
        kept.append(random_tensor(name, shape, "F32"))
    tensors[:] = kept


def forward(ids: list[int]) -> Float64:
    tokens, caches = len(ids), {}
    x = numbers("token_embd.weight", VOCAB, HIDDEN)[ids] * np.sqrt(HIDDEN)
    table = numbers("per_layer_token_embd.weight", VOCAB, LAYERS * PER_LAYER)[ids]
    projected = x @ numbers("per_layer_model_proj.weight", LAYERS * PER_LAYER, HIDDEN).T
    projected = (projected / np.sqrt(HIDDEN)).reshape(tokens, LAYERS, PER_LAYER)
    projected = rms(projected, numbers("per_layer_proj_norm.weight", PER_LAYER))
    looked_up = table.reshape(tokens, LAYERS, PER_LAYER) * np.sqrt(PER_LAYER)
    inputs = (projected + looked_up) / np.sqrt(2)
    for layer in range(LAYERS):
        w = weights_of(layer)
        h = rms(x, w("attn_norm", HIDDEN))
        dim = LOCAL_DIM if WINDOWED[layer] else HEAD_DIM
        place = _rotation(WINDOWED[layer])
        q = (h @ w("attn_q", HEADS * dim, HIDDEN).T).reshape(tokens, HEADS, dim)
        q = place(rms(q, w("attn_q_norm", dim)))
        if layer < OWN_KEYS:
            k = (h @ w("attn_k", KV_HEADS * dim, HIDDEN).T).reshape(tokens, KV_HEADS, dim)
            v = k
            if WINDOWED[layer]:
                v = (h @ w("attn_v", KV_HEADS * dim, HIDDEN).T).reshape(tokens, KV_HEADS, dim)
            caches[WINDOWED[layer]] = place(rms(k, w("attn_k_norm", dim))), rms(v)
        seen = past(tokens, WINDOW if WINDOWED[layer] else CONTEXT)
        y = mixed(q, *caches[WINDOWED[layer]], seen, scale=1.0)
        y = y @ w("attn_output", HIDDEN, HEADS * dim).T
        x = x + rms(y, w("post_attention_norm", HIDDEN))
        h = rms(x, w("ffn_norm", HIDDEN))
        h = gelu_tanh(h @ w("ffn_gate", FF, HIDDEN).T) * (h @ w("ffn_up", FF, HIDDEN).T)
        h = h @ w("ffn_down", HIDDEN, FF).T
        if layer == WITH_EXPERTS:
            h = rms(h, w("post_ffw_norm_1", HIDDEN)) + experts(x, layer)
        x = x + rms(h, w("post_ffw_norm", HIDDEN))
        h = gelu_tanh(x @ w("inp_gate", PER_LAYER, HIDDEN).T) * inputs[:, layer]
        x = x + rms(h @ w("proj", HIDDEN, PER_LAYER).T, w("post_norm", HIDDEN))
        x = x * w("layer_output_scale", 1)
    x = rms(x, numbers("output_norm.weight", HIDDEN))
    logits: Float64 = 5 * np.tanh(x @ numbers("token_embd.weight", VOCAB, HIDDEN).T / 5)
    return logits


def experts(x: Float64, layer: int) -> Float64:
    """One token after another."""
    w = weights_of(layer)
    read = rms(x) / np.sqrt(HIDDEN) * numbers(f"blk.{layer}.ffn_gate_inp.scale", HIDDEN)
    scores = np.exp(read @ w("ffn_gate_inp", EXPERTS, HIDDEN).T)
    h = rms(x, w("pre_ffw_norm_2", HIDDEN))
    first, last = np.split(w("ffn_gate_up_exps", EXPERTS, 2 * FF, HIDDEN), 2, axis=1)
    down, scale = w("ffn_down_exps", EXPERTS, HIDDEN, FF), f"blk.{layer}.ffn_down_exps.scale"
    out = np.zeros_like(x)
    for t, row in enumerate(scores):
        chosen = np.argsort(-row)[:EXPERTS_USED]
        for e in chosen:
            inner = gelu_tanh(first[e] @ h[t]) * (last[e] @ h[t])
            share = row[e] / row[chosen].sum() * numbers(scale, EXPERTS)[e]
            out[t] += share * (down[e] @ inner)
    return rms(out, w("post_ffw_norm_2", HIDDEN))


def _rotation(windowed: bool) -> Callable[[Float64], Float64]:
    if windowed:
        return lambda x: rotated(x, 1000.0)
    divisors = numbers("rope_freqs.weight", HEAD_DIM // 2)
    return lambda x: rotated(x, 50000.0, divisors=divisors)


def test_logits_are_those_of_the_formulas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activation, "_half", lambda x: x)
    got = logits_of(write_tiny(tmp_path, "gemma4", edit), IDS)
    np.testing.assert_allclose(got, forward(IDS), rtol=1e-4, atol=1e-4)


def test_keys_that_no_earlier_layer_has_are_refused(tmp_path: Path) -> None:
    def share_too_many(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        keys["gemma4.attention.shared_kv_layers"] = LAYERS - 1

    path = write_tiny(tmp_path, "gemma4", share_too_many)
    with pytest.raises(GGUFError, match=r"shared_kv_layers is 5.*blk.1.*blk.3"):
        logits_of(path, IDS)
