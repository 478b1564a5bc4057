"""What forward passes in float64 are written out of: layers' formulas, and a file's tensors.

Rows are tokens; heads are (tokens, heads, numbers). Holds no tests.
"""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgellm.gguf_loader import open_gguf
from tests.models.recipes.parts import CONTEXT, HEAD_DIM, KV_WIDTH, Q_WIDTH
from tests.models.tiny import random_tensor

Float64 = npt.NDArray[np.float64]


def sigmoid(x: Float64) -> Float64:
    return 1 / (1 + np.exp(-x))


def silu(x: Float64) -> Float64:
    return x * sigmoid(x)


def gelu(x: Float64) -> Float64:
    result: Float64 = x / 2 * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))
    return result


def gelu_tanh(x: Float64) -> Float64:
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x: Float64) -> Float64:
    weights = np.exp(x - x.max(-1, keepdims=True))
    result: Float64 = weights / weights.sum(-1, keepdims=True)
    return result


def rms(x: Float64, weight: Float64 | float = 1.0) -> Float64:
    result: Float64 = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight
    return result


def standard(x: Float64, eps: float = 1e-5) -> Float64:
    """A layer norm's rows before its weights."""
    centred = x - x.mean(-1, keepdims=True)
    result: Float64 = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    return result


def rotated(
    x: Float64, base: float, interleaved: bool = False, divisors: Float64 | float = 1.0
) -> Float64:
    """All numbers of each head: halves in pairs, or neighbours. divisors: of the pairs' angles."""
    half = x.shape[-1] // 2
    angles = np.arange(len(x))[:, None] * base ** -(np.arange(half) / half) / divisors
    turn = np.exp(1j * angles)[:, None]
    if interleaved:
        z = (x[..., ::2] + 1j * x[..., 1::2]) * turn
        return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)
    z = (x[..., :half] + 1j * x[..., half:]) * turn
    return np.concatenate([z.real, z.imag], axis=-1)


def past(length: int, window: int = CONTEXT) -> Float64:
    """0 where a token (row) sees one: itself and the window - 1 before; else minus infinity."""
    back = np.arange(length)[:, None] - np.arange(length)
    return np.where((back >= 0) & (back < window), 0.0, -np.inf)


def mixed(
    q: Float64,
    k: Float64,
    v: Float64,
    bias: Float64 | float = 0.0,
    scale: float = HEAD_DIM**-0.5,
) -> Float64:
    """Attention, heads side by side; bias (tokens, tokens), or of each head."""
    k, v = (np.repeat(part, q.shape[1] // part.shape[1], axis=1) for part in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k) * scale + bias
    return np.einsum("hqk,khd->qhd", softmax(scores), v).reshape(len(q), -1)


def numbers(name: str, *shape: int) -> Float64:
    """What a tiny file of F32 holds, by numpy's order of dimensions."""
    tensor = random_tensor(name, tuple(reversed(shape)), "F32")
    return np.asarray(tensor[3]).view(np.float32).reshape(shape).astype(np.float64)


def weights_of(layer: int) -> Callable[..., Float64]:
    return lambda name, *shape: numbers(f"blk.{layer}.{name}.weight", *shape)


class Tensors:
    """Those of a file of F32, (rows, columns)."""

    def __init__(self, path: Path) -> None:
        with open_gguf(path) as file:
            self.all: dict[str, Float64] = {
                name: np.array(file.data(name)).view(np.float32).reshape(info.shape[::-1])
                .astype(np.float64)
                for name, info in file.tensors.items()
            }  # fmt: skip

    def linear(self, x: Float64, name: str) -> Float64:
        y: Float64 = x @ self.all[f"{name}.weight"].T
        return y + self.all.get(f"{name}.bias", 0.0)

    def norm(self, x: Float64, name: str) -> Float64:
        return standard(x) * self.all[f"{name}.weight"] + self.all.get(f"{name}.bias", 0.0)

    def rms(self, x: Float64, name: str) -> Float64:
        return rms(x, self.all[f"{name}.weight"])

    def heads(self, x: Float64, prefix: str) -> tuple[Float64, Float64, Float64]:
        if f"{prefix}.attn_qkv.weight" in self.all:
            parts = np.split(
                self.linear(x, f"{prefix}.attn_qkv"), [Q_WIDTH, Q_WIDTH + KV_WIDTH], axis=1
            )
        else:
            parts = [self.linear(x, f"{prefix}.attn_{part}") for part in "qkv"]
        q, k, v = (part.reshape(len(x), -1, HEAD_DIM) for part in parts)
        return q, k, v
