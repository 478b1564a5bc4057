"""Gemma 3n against its formulas in float64: streams, the low-rank branch, gates that few pass."""

from pathlib import Path

import numpy as np
import pytest

from edgellm.gguf_loader import open_gguf
from edgellm.kernels.reference import activation
from edgellm.models import read_config
from edgellm.models.activation_config import GEMMA_3N_DEVIATIONS
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
from tests.models.recipes.dense import PER_LAYER
from tests.models.recipes.parts import (
    CONTEXT,
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
from tests.models.tiny import write_tiny

STREAMS, ACTIVE, OWN_KEYS = 4, 1, 4
WINDOWED = (True, True, False, True, True, False)
DEVIATIONS = (1.6, 1.0, 0.0)  # of the first layers; the others leave gates alone
IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]


def as_long_as(x: Float64, like: Float64) -> Float64:
    scaled: Float64 = x * np.sqrt((like**2).sum(-1, keepdims=True) / (x**2).sum(-1, keepdims=True))
    return scaled


def inputs_of_layers(x: Float64, ids: list[int]) -> Float64:
    """(tokens, layers, width)."""
    shape = len(ids), LAYERS, PER_LAYER
    table = numbers("per_layer_token_embd.weight", VOCAB, LAYERS * PER_LAYER)[ids]
    made = x @ numbers("per_layer_model_proj.weight", LAYERS * PER_LAYER, HIDDEN).T
    normed = rms(
        made.reshape(shape) / np.sqrt(HIDDEN), numbers("per_layer_proj_norm.weight", PER_LAYER)
    )
    result: Float64 = (normed + table.reshape(shape) * np.sqrt(PER_LAYER)) / np.sqrt(2)
    return result


def blocks(x: Float64, layer: int, caches: dict[bool, tuple[Float64, Float64]]) -> Float64:
    w, tokens, is_windowed = weights_of(layer), len(x), WINDOWED[layer]
    normed = rms(x, w("attn_norm", HIDDEN))
    base = 10000.0 if is_windowed else 50000.0

    def heads(name: str, count: int) -> Float64:
        rows = normed @ w(name, count * HEAD_DIM, HIDDEN).T
        return rows.reshape(tokens, count, HEAD_DIM)

    q = rotated(rms(heads("attn_q", HEADS), w("attn_q_norm", HEAD_DIM)), base)
    if layer < OWN_KEYS:
        k = rotated(rms(heads("attn_k", KV_HEADS), w("attn_k_norm", HEAD_DIM)), base)
        caches[is_windowed] = k, rms(heads("attn_v", KV_HEADS))
    seen = past(tokens, WINDOW if is_windowed else CONTEXT)
    y = mixed(q, *caches[is_windowed], seen, scale=1.0)
    y = y @ w("attn_output", HIDDEN, HEADS * HEAD_DIM).T
    attended = x + rms(y, w("post_attention_norm", HIDDEN))
    branch = normed @ w("laurel_l", 8, HIDDEN).T @ w("laurel_r", HIDDEN, 8).T
    x = (attended + normed + rms(branch, w("laurel_post_norm", HIDDEN))) / np.sqrt(2)
    normed = rms(x, w("ffn_norm", HIDDEN))
    gate = normed @ w("ffn_gate", FF, HIDDEN).T
    if layer < len(DEVIATIONS):
        cut = gate.mean(-1, keepdims=True) + DEVIATIONS[layer] * gate.std(-1, keepdims=True)
        gate = np.maximum(gate - cut, 0)
    out = (gelu_tanh(gate) * (normed @ w("ffn_up", FF, HIDDEN).T)) @ w("ffn_down", HIDDEN, FF).T
    return x + rms(out, w("post_ffw_norm", HIDDEN))


def modalities(x: Float64, layer: int) -> Float64:
    w = weights_of(layer)
    read = rms(x, w("altup_router_norm", HIDDEN)) / HIDDEN
    tanh: Float64 = np.tanh(read @ w("altup_router", STREAMS, HIDDEN).T)
    return tanh


def forward(ids: list[int]) -> Float64:
    table = numbers("token_embd.weight", VOCAB, HIDDEN)
    x = table[ids] * np.sqrt(HIDDEN)
    inputs = inputs_of_layers(x, ids)
    matrices = numbers("altup_proj.weight", STREAMS - 1, HIDDEN, HIDDEN)
    streams = np.stack([x, *(as_long_as(x @ m.T, x) for m in matrices)])
    caches: dict[bool, tuple[Float64, Float64]] = {}
    for layer in range(LAYERS):
        w = weights_of(layer)
        shares = modalities(streams[ACTIVE], layer) @ w("altup_predict_coef", STREAMS**2, STREAMS).T
        shares = shares.reshape(len(ids), STREAMS, STREAMS)  # (token, to, of)
        streams = streams + np.einsum("tjs,sth->jth", shares, streams)
        active = blocks(streams[ACTIVE], layer, caches)
        factors = modalities(active, layer) @ w("altup_correct_coef", STREAMS, STREAMS).T + 1
        streams = streams + factors.T[:, :, None] * (active - streams[ACTIVE])
        read = streams[ACTIVE] * w("altup_correct_scale", HIDDEN)
        part = gelu_tanh(read @ w("inp_gate", PER_LAYER, HIDDEN).T) * inputs[:, layer]
        part = rms(part @ w("proj", HIDDEN, PER_LAYER).T, w("post_norm", HIDDEN))
        streams = np.stack([streams[0], *(streams[1:] + part)])
    back = numbers("altup_unembd_proj.weight", STREAMS - 1, HIDDEN, HIDDEN)
    rest = [as_long_as(s @ m.T, streams[ACTIVE]) for s, m in zip(streams[1:], back, strict=True)]
    x = rms(sum(rest, streams[0]) / STREAMS, numbers("output_norm.weight", HIDDEN))
    logits: Float64 = 30 * np.tanh(x @ table.T / 30)
    return logits


def test_logits_are_those_of_the_formulas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activation, "_half", lambda x: x)
    got = logits_of(write_tiny(tmp_path, "gemma3n", format_name="F32"), IDS)
    np.testing.assert_allclose(got, forward(IDS), rtol=1e-4, atol=1e-4)


def test_a_file_without_the_keys_has_what_both_models_have(tmp_path: Path) -> None:
    def leave_out(keys: dict[str, object], tensors: list[Tensor]) -> None:
        for name in list(keys):
            if "altup" in name or "sparsity" in name or "shared_kv" in name or "per_layer" in name:
                del keys[name]
        keys["gemma3n.block_count"] = 30

    with open_gguf(write_tiny(tmp_path, "gemma3n", leave_out)) as file:
        config = read_config(file)
    assert config.altup is not None
    assert (config.altup.streams, config.altup.active) == (4, 0)
    assert config.gate_deviations == (GEMMA_3N_DEVIATIONS,) * 10 + (None,) * 20
    assert config.shared_kv_layers == 10
    assert config.per_layer_input_width == 256
