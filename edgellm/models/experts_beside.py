"""Feed-forward halves of a layer in which experts stand beside a network without a router, and each
of the two reads the residual stream by a norm of its own.
"""

import math

from edgellm.kernels.program import Value
from edgellm.models.experts import config, routed
from edgellm.models.feed_forward import mlp
from edgellm.models.recorder import Recorder


def experts_beside_layer(r: Recorder, layer: int, x: Value) -> Value:
    """A network as wide as hidden_size; experts that read the layer's input, beside attention too.

    x (T, hidden_size), normed, and so the result. Source: Snowflake 2024 (Arctic).
    """
    prefix = f"blk.{layer}"
    assert r.layer_input is not None
    read = r.norm(r.layer_input, f"{prefix}.ffn_norm_exps")
    scores = r.linear(read, f"{prefix}.ffn_gate_inp", config(r, layer).count)
    return r.builder.add(
        mlp(r, layer, x, width=r.config.hidden_size), routed(r, layer, read, scores)
    )


def experts_beside_mlp(r: Recorder, layer: int, x: Value) -> Value:
    """Both normed behind, and added. The router has a norm and factors of its own.

    x (T, hidden_size), normed, and so the result. Source: Gemma 4 (Google 2026).
    """
    b, prefix, hidden = r.builder, f"blk.{layer}", r.config.hidden_size
    assert r.attended is not None
    plain = r.norm(mlp(r, layer, x), f"{prefix}.post_ffw_norm_1")
    read = b.multiply(b.rms_norm(r.attended, None, r.config.norm_eps), 1 / math.sqrt(hidden))
    read = b.multiply_columns(read, r.weights.vector(f"{prefix}.ffn_gate_inp.scale", hidden))
    router = r.weights.matrix(f"{prefix}.ffn_gate_inp.weight", config(r, layer).count, hidden)
    normed = r.norm(r.attended, f"{prefix}.pre_ffw_norm_2")
    out = routed(r, layer, normed, b.matmul(read, router))
    return b.add(plain, r.norm(out, f"{prefix}.post_ffw_norm_2"))
