"""Llama 4 against its formulas in float64: chunks of keys, layers without positions, experts that
read what is weighted.
"""

from pathlib import Path

import numpy as np

from tests.gguf_writer import Tensor
from tests.models.formulas import Float64, numbers, rms, rotated, sigmoid, silu, weights_of
from tests.models.recipes.experts import SHARED_FF
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
from tests.models.running import logits_of, record_file
from tests.models.tiny import write_tiny

IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4]
DENSE, UNROTATED, FACTOR = (0, 2), 3, 1.5


def attend(q: Float64, k: Float64, v: Float64, chunk: int) -> Float64:
    out = np.empty_like(q)
    for t in range(len(q)):
        seen = slice(t // chunk * chunk, t + 1)
        for head in range(HEADS):
            group = head * KV_HEADS // HEADS
            scores = np.exp(k[seen, group] @ q[t, head] / np.sqrt(HEAD_DIM))
            out[t, head] = scores @ v[seen, group] / scores.sum()
    return out.reshape(len(q), -1)


def experts(x: Float64, layer: int) -> Float64:
    w = weights_of(layer)
    shares = sigmoid(x @ w("ffn_gate_inp", EXPERTS, HIDDEN).T)
    gate, up = (w(f"ffn_{name}_exps", EXPERTS, FF, HIDDEN) for name in ("gate", "up"))
    down = w("ffn_down_exps", EXPERTS, HIDDEN, FF)
    gate_s, up_s = (w(f"ffn_{name}_shexp", SHARED_FF, HIDDEN) for name in ("gate", "up"))
    out = (silu(x @ gate_s.T) * (x @ up_s.T)) @ w("ffn_down_shexp", HIDDEN, SHARED_FF).T
    for t, row in enumerate(shares):
        for e in np.argsort(-row)[:EXPERTS_USED]:
            read = FACTOR * row[e] * x[t]
            out[t] += down[e] @ (silu(gate[e] @ read) * (up[e] @ read))
    return out


def forward(ids: list[int]) -> Float64:
    table = numbers("token_embd.weight", VOCAB, HIDDEN)
    x = table[ids]
    for layer in range(LAYERS):
        w = weights_of(layer)
        h = rms(x, w("attn_norm", HIDDEN))
        q, k, v = (
            (h @ w(f"attn_{name}", count * HEAD_DIM, HIDDEN).T).reshape(len(ids), count, HEAD_DIM)
            for name, count in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS))
        )
        if layer != UNROTATED:
            q, k = (rms(rotated(part, 50000.0, interleaved=True)) for part in (q, k))
        mixed = attend(q, k, v, CONTEXT if layer == UNROTATED else WINDOW)
        x = x + mixed @ w("attn_output", HIDDEN, HEADS * HEAD_DIM).T
        h = rms(x, w("ffn_norm", HIDDEN))
        if layer in DENSE:
            inner = silu(h @ w("ffn_gate", FF, HIDDEN).T) * (h @ w("ffn_up", FF, HIDDEN).T)
            x = x + inner @ w("ffn_down", HIDDEN, FF).T
        else:
            x = x + experts(h, layer)
    logits: Float64 = rms(x, numbers("output_norm.weight", HIDDEN)) @ table.T
    return logits


def test_logits_are_those_of_the_formulas(tmp_path: Path) -> None:
    got = logits_of(write_tiny(tmp_path, "llama4", format_name="F32"), IDS)
    np.testing.assert_allclose(got, forward(IDS), rtol=1e-4, atol=1e-4)


def test_a_key_gives_windowed_layers_a_base_of_their_own(tmp_path: Path) -> None:
    def edit(keys: dict[str, object], tensors: list[Tensor]) -> None:
        keys |= {"llama4.rope.freq_base_swa": 123.0, "llama4.rope.scaling.factor": 4.0}

    program = record_file(write_tiny(tmp_path, "llama4", edit))
    (table,) = [call.weights[0] for call in program.calls if call.op == "rope_table"]
    want = 123.0 ** -(np.arange(HEAD_DIM // 2) / (HEAD_DIM // 2)) / 4
    np.testing.assert_allclose(table.data.view(np.float32)[0], want, rtol=1e-6)


def test_queries_without_positions_grow_from_8192_on(tmp_path: Path) -> None:
    def edit(keys: dict[str, object], tensors: list[Tensor]) -> None:
        keys["llama4.attention.temperature_scale"] = 0.1  # as some files say of these layers

    program = record_file(write_tiny(tmp_path, "llama4", edit))
    (scale,) = [call.attributes for call in program.calls if call.op == "position_scale"]
    assert scale == {"length": 8192, "factor": 0.1, "offset": 1}
