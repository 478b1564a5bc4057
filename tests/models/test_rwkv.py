"""RWKV-7 written out in float64, token by token, as its paper has it."""

from pathlib import Path

import numpy as np

from tests.models.formulas import Float64, Tensors, sigmoid, standard
from tests.models.recipes.parts import HIDDEN, LAYERS
from tests.models.recipes.recurrent import WKV
from tests.models.running import logits_of
from tests.models.tiny import write_tiny

IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
HEADS = HIDDEN // WKV


class Model:
    """All tensors as float64, (rows, columns) or vectors; states of every layer."""

    def __init__(self, path: Path) -> None:
        self.file = Tensors(path)
        self.tensors = self.file.all
        self.last = np.zeros((LAYERS, 2, HIDDEN))  # what both halves of a layer read before
        self.states = np.zeros((LAYERS, HEADS, WKV, WKV))  # (value, key)

    def token(self, token_id: int) -> Float64:
        x = self.file.norm(self.tensors["token_embd.weight"][token_id], "token_embd_norm")
        self.first: Float64 | None = None
        for layer in range(LAYERS):
            x = x + self.time_mix(layer, self.file.norm(x, f"blk.{layer}.attn_norm"))
            x = x + self.channel_mix(layer, self.file.norm(x, f"blk.{layer}.attn_norm_2"))
        logits: Float64 = self.tensors["token_embd.weight"] @ self.file.norm(x, "output_norm")
        return logits

    def time_mix(self, layer: int, x: Float64) -> Float64:
        def w(name: str) -> Float64:
            return self.tensors[f"blk.{layer}.time_mix_{name}.weight"]

        shares = w("lerp_fused").reshape(6, HIDDEN)
        xr, xw, xk, xv, xa, xg = x + (self.last[layer, 0] - x) * shares
        self.last[layer, 0] = x
        r, k, v = w("receptance") @ xr, w("key") @ xk, w("value") @ xv
        decay = np.exp(-np.exp(-0.5) * sigmoid(w("w0") + w("w2") @ np.tanh(w("w1") @ xw)))
        if self.first is None:
            self.first = v
        else:
            v = v + (self.first - v) * sigmoid(w("v0") + w("v2") @ (w("v1") @ xv))
        a = sigmoid(w("a0") + w("a2") @ (w("a1") @ xa))
        gate = w("g2") @ sigmoid(w("g1") @ xg)
        removal = (k * w("k_k")).reshape(HEADS, WKV)
        removal = removal / np.linalg.norm(removal, axis=1, keepdims=True)
        k = k * (1 + (a - 1) * w("k_a"))
        rs, ks, vs, ds, rates = (m.reshape(HEADS, WKV) for m in (r, k, v, decay, a))
        out = np.empty((HEADS, WKV))
        bonus = np.empty((HEADS, WKV))
        for h in range(HEADS):
            s = self.states[layer, h]
            moved = np.outer(s @ -removal[h], removal[h] * rates[h])
            s = s * ds[h] + moved + np.outer(vs[h], ks[h])
            self.states[layer, h] = s
            out[h] = s @ rs[h]
            bonus[h] = (rs[h] * ks[h] * w("r_k").reshape(HEADS, WKV)[h]).sum() * vs[h]
        bias = self.tensors[f"blk.{layer}.time_mix_ln.bias"]
        y = standard(out, 64e-5).reshape(-1) * w("ln") + bias + bonus.reshape(-1)
        result: Float64 = w("output") @ (y * gate)
        return result

    def channel_mix(self, layer: int, x: Float64) -> Float64:
        prefix = f"blk.{layer}.channel_mix"
        share = self.tensors[f"{prefix}_lerp_k.weight"].reshape(-1)
        mixed = x + (self.last[layer, 1] - x) * share
        self.last[layer, 1] = x
        hidden = np.maximum(self.tensors[f"{prefix}_key.weight"] @ mixed, 0) ** 2
        result: Float64 = self.tensors[f"{prefix}_value.weight"] @ hidden
        return result


def test_the_program_is_the_paper(tmp_path: Path) -> None:
    path = write_tiny(tmp_path, "rwkv7", format_name="F32")
    model = Model(path)
    want = np.array([model.token(token_id) for token_id in IDS])
    got = logits_of(path, IDS)
    assert ((got - want) ** 2).mean() <= 1e-9 * (want**2).mean()
