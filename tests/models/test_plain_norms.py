"""Families whose norms have no weights, against forward passes in float64."""

from pathlib import Path
from typing import Any

import numpy as np

from edgellm.kernels.formats import by_id, dequantize_rows
from tests.gguf_writer import Tensor
from tests.models.formulas import Float64, mixed, past, rms, rotated, sigmoid, silu
from tests.models.recipes.parts import HEAD_DIM, LAYERS, VOCAB
from tests.models.running import Logits, logits_of
from tests.models.tiny import random_tensor, shapes, write_tiny

IDS = np.random.default_rng(5).integers(0, VOCAB, size=20).tolist()
PAST = past(len(IDS))


class Tensors:
    """Those of a tiny model, by name without ".weight"."""

    def __init__(self, name: str) -> None:
        self.made = {t: random_tensor(t, shape) for t, shape in shapes(name).items()}

    def __getitem__(self, name: str) -> Float64:
        full = name if name in self.made else f"{name}.weight"
        _, shape, type_id, data = self.made[full]
        rows = data.reshape(int(np.prod(shape[1:])), -1)
        return dequantize_rows(by_id(type_id), rows).astype(np.float64)


def fed_forward(t: Tensors, prefix: str, x: Float64) -> Float64:
    y = rms(x)
    gate = y @ t[f"{prefix}.ffn_gate"].T
    out: Float64 = (silu(gate) * (y @ t[f"{prefix}.ffn_up"].T)) @ t[f"{prefix}.ffn_down"].T
    return x + out


def projected(t: Tensors, prefix: str, y: Float64) -> tuple[Float64, Float64, Float64]:
    """Queries and keys rotated."""
    q, k, v = ((y @ t[f"{prefix}.attn_{part}"].T).reshape(len(IDS), -1, HEAD_DIM) for part in "qkv")
    return rotated(q, 50000.0), rotated(k, 50000.0), v


def assert_close(got: Logits, want: Float64) -> None:
    assert ((got - want) ** 2).mean() <= 1e-9 * (want**2).mean()


def test_talkie(tmp_path: Path) -> None:
    """A factor for each head of queries; each layer adds the embedding."""
    t = Tensors("talkie")
    x = embedding = rms(t["token_embd"][IDS])
    for layer in range(LAYERS):
        p = f"blk.{layer}"
        q, k, v = projected(t, p, rms(x))
        y = mixed(rms(q) * t[f"{p}.attn_q_norm"], rms(k), v, PAST)
        x = x + y @ t[f"{p}.attn_output"].T
        x = fed_forward(t, p, x) + embedding * t[f"{p}.layer_output_scale"]
    assert_close(logits_of(write_tiny(tmp_path, "talkie"), IDS), rms(x) @ t["output"].T * 2.0)


def test_hrm_text(tmp_path: Path) -> None:
    """Two low runs, and a high one, twice: the second time from the states of the first."""
    t, stack = Tensors("hrm_text"), 1

    def run(x: Float64, first: int) -> Float64:
        for layer in range(first, first + stack):
            p, y = f"blk.{layer}", rms(x)
            gate = sigmoid(y @ t[f"{p}.attn_gate"].T)
            x = x + (mixed(*projected(t, p, y), PAST) * gate) @ t[f"{p}.attn_output"].T
            x = fed_forward(t, p, x)
        return rms(x)

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
