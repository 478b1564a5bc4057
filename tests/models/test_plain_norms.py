"""Families whose norms have no weights, against forward passes in float64."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.kernels.formats import by_id, dequantize_rows
from tests.gguf_writer import Tensor
from tests.models.recipes.parts import HEAD_DIM, HEADS, KV_HEADS, LAYERS, Q_WIDTH, VOCAB
from tests.models.running import Logits, logits_of
from tests.models.tiny import random_tensor, shapes, write_tiny

Float64 = npt.NDArray[np.float64]
IDS = np.random.default_rng(5).integers(0, VOCAB, size=20).tolist()


class Tensors:
    """Those of a tiny model, by name without ".weight"."""

    def __init__(self, name: str) -> None:
        self.made = {t: random_tensor(t, shape) for t, shape in shapes(name).items()}

    def __getitem__(self, name: str) -> Float64:
        full = name if name in self.made else f"{name}.weight"
        _, shape, type_id, data = self.made[full]
        rows = data.reshape(int(np.prod(shape[1:])), -1)
        return dequantize_rows(by_id(type_id), rows).astype(np.float64)


def normed(x: Float64) -> Float64:
    y: Float64 = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    return y


def sigmoid(x: Float64) -> Float64:
    y: Float64 = 1 / (1 + np.exp(-x))
    return y


def heads_of(x: Float64, heads: int) -> Float64:
    return x.reshape(len(IDS), heads, HEAD_DIM).swapaxes(0, 1)


def turned(x: Float64) -> Float64:
    half = HEAD_DIM // 2
    angles = np.arange(len(IDS))[:, None] * 50000.0 ** (-np.arange(half) / half)
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([z.real, z.imag], -1)


def mixed(q: Float64, k: Float64, v: Float64) -> Float64:
    """Causal attention of (heads, tokens, HEAD_DIM)."""
    k, v = (np.repeat(part, HEADS // KV_HEADS, 0) for part in (k, v))
    future = np.triu(np.full((len(IDS), len(IDS)), -np.inf), 1)
    scores = np.exp(q @ k.swapaxes(1, 2) / np.sqrt(HEAD_DIM) + future)
    out = scores / scores.sum(-1, keepdims=True) @ v
    return out.swapaxes(0, 1).reshape(len(IDS), Q_WIDTH)


def fed_forward(t: Tensors, prefix: str, x: Float64) -> Float64:
    y = normed(x)
    gate = y @ t[f"{prefix}.ffn_gate"].T
    out: Float64 = (gate * sigmoid(gate) * (y @ t[f"{prefix}.ffn_up"].T)) @ t[
        f"{prefix}.ffn_down"
    ].T
    return x + out


def projected(t: Tensors, prefix: str, y: Float64) -> tuple[Float64, Float64, Float64]:
    """Queries and keys rotated."""
    q, k, v = (
        heads_of(y @ t[f"{prefix}.attn_{part}"].T, heads)
        for part, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS))
    )
    return turned(q), turned(k), v


def assert_close(got: Logits, want: Float64) -> None:
    assert ((got - want) ** 2).mean() <= 1e-9 * (want**2).mean()


def test_talkie(tmp_path: Path) -> None:
    """A factor for each head of queries; each layer adds the embedding."""
    t = Tensors("talkie")
    x = embedding = normed(t["token_embd"][IDS])
    for layer in range(LAYERS):
        p = f"blk.{layer}"
        q, k, v = projected(t, p, normed(x))
        gains = t[f"{p}.attn_q_norm"][:, :, None]
        x = x + mixed(normed(q) * gains, normed(k), v) @ t[f"{p}.attn_output"].T
        x = fed_forward(t, p, x) + embedding * t[f"{p}.layer_output_scale"]
    assert_close(logits_of(write_tiny(tmp_path, "talkie"), IDS), normed(x) @ t["output"].T * 2.0)


def test_hrm_text(tmp_path: Path) -> None:
    """Two low runs, and a high one, twice: the second time from the states of the first."""
    t, stack = Tensors("hrm_text"), 1

    def run(x: Float64, first: int) -> Float64:
        for layer in range(first, first + stack):
            p, y = f"blk.{layer}", normed(x)
            gate = sigmoid(y @ t[f"{p}.attn_gate"].T)
            x = x + (mixed(*projected(t, p, y)) * gate) @ t[f"{p}.attn_output"].T
            x = fed_forward(t, p, x)
        return normed(x)

    high, low = t["token_embd"][IDS] * 4.0, t["hrm.z_l_init"]
    for _ in range(2):
        for _ in range(2):
            low = run(high + low, 0)
        high = run(high + low, stack)

    def edit(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        sizes = {"layers_per_stack": stack, "h_cycles": 2, "l_cycles": 2}
        keys |= {f"hrm_text.hrm.{key}": size for key, size in sizes.items()}
        beyond = tuple(f"blk.{layer}." for layer in range(2 * stack, LAYERS))
        tensors[:] = [tensor for tensor in tensors if not tensor[0].startswith(beyond)]

    path = write_tiny(tmp_path, "hrm_text", edit)
    assert_close(logits_of(path, IDS), high @ t["token_embd"].T)
