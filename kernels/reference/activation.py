"""Activations in numpy, of one value or as the gate of another."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from edgellm.kernels.batch import Batch
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.program import OpCall
from edgellm.kernels.reference.common import Array, Inputs, Op, sigmoid


def _silu(x: Array) -> Array:
    return x * sigmoid(x)


def _gelu(x: Array) -> Array:
    erf = np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2))
    half: Array = 0.5 * x * (1 + erf).astype(np.float32)
    return half


def _half(x: Array) -> Array:
    return x.astype(np.float16).astype(np.float32)


def _gelu_tanh(x: Array) -> Array:
    # ggml looks GELU up in a table of halves below 10, and golden logits come from there. Other
    # backends may keep full precision: the two differ by 3e-8 of the logits' energy.
    half = _half(np.clip(x, np.float32(-10), np.float32(10)))
    inner = np.float32(np.sqrt(2 / np.pi)) * (half + np.float32(0.044715) * half**3)
    gelu = _half(np.float32(0.5) * half * (1 + np.tanh(inner)))
    return np.where(x < 10, gelu, x)


def _gelu_quick(x: Array) -> Array:
    return x * sigmoid(np.float32(1.702) * x)


def _relu(x: Array) -> Array:
    return np.maximum(x, np.float32(0))


def _relu2(x: Array) -> Array:
    return np.square(_relu(x))


def _gompertz(x: Array) -> Array:
    return np.exp(-np.exp(np.minimum(x, np.float32(80))))


UNARY: Mapping[str, Callable[[Array], Array]] = {
    "silu": _silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "gelu_quick": _gelu_quick,
    "relu": _relu,
    "relu2": _relu2,
    "sigmoid": sigmoid,
    "gompertz": _gompertz,
}


def _swiglu_clamped(gate: Array, up: Array, alpha: float, limit: float) -> Array:
    g, u = np.minimum(gate, np.float32(limit)), np.clip(up, np.float32(-limit), np.float32(limit))
    return g * sigmoid(np.float32(alpha) * g) * (u + 1)


def _activate(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    return UNARY[str(call.attributes["activation"])](inputs[0])


def _gated(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    (gate, up), attributes = inputs, call.attributes
    activation = str(attributes["activation"])
    if activation == "swiglu_clamped":
        return _swiglu_clamped(gate, up, float(attributes["alpha"]), float(attributes["limit"]))
    return gate * up if activation == "bilinear" else UNARY[activation](gate) * up


def _xielu(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    alpha_p, alpha_n, beta = (float(call.attributes[n]) for n in ("alpha_p", "alpha_n", "beta"))
    x = inputs[0].astype(np.float64)
    above, below = np.maximum(x, 0), np.minimum(x, 0)
    return (alpha_p * above**2 + alpha_n * (np.expm1(below) - below) + beta * x).astype(np.float32)


OPS: Mapping[str, Op] = {"activate": _activate, "gated": _gated, "xielu": _xielu}
