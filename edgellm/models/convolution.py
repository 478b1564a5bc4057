"""Short causal convolutions, as a step of other blocks and as a block of their own."""

from edgellm.kernels.program import Value
from edgellm.models.recorder import Recorder


def convolved(
    r: Recorder, x: Value, name: str, kernel: int, *, silu: bool = True, flat: bool = True
) -> Value:
    """x (T, channels) along the sequence, with the weights `name` and a bias where there is one.

    flat: the file's weight is (kernel, channels), else (kernel, 1, channels).
    """
    shape = (kernel, x.width) if flat else (kernel, 1, x.width)
    weight = r.weights.matrix_float32(f"{name}.weight", x.width, kernel, shape=shape)
    bias = r.weights.optional_vector(f"{name}.bias", x.width)
    return r.builder.short_convolution(x, weight, bias, silu=silu)


def gated_short_convolution(r: Recorder, layer: int, x: Value) -> Value:
    """c * convolution(b * x), projected. x (T, hidden_size), normed, and so the result.

    Source: Liquid AI 2025 (LFM2).
    """
    hidden, prefix, gated = r.config.hidden_size, f"blk.{layer}.shortconv", r.builder.gated
    (kernel,) = r.config.recurrent.require("shortconv.l_cache")
    b, c, value = r.fused_linear(x, f"{prefix}.in_proj", (hidden, hidden, hidden))
    mixed = convolved(r, gated(b, value, "bilinear"), f"{prefix}.conv", kernel, silu=False)
    return r.linear(gated(c, mixed, "bilinear"), f"{prefix}.out_proj", hidden)
