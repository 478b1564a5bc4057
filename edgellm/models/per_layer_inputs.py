"""What tokens bring to every layer beside the residual stream (Gemma 3n and 4).

Source: Gemma 3n (Google 2025), per-layer embeddings.
"""

import math

from edgellm.errors import GGUFError
from edgellm.kernels.program import Value
from edgellm.models.recorder import Recorder


def per_layer_inputs(r: Recorder, x: Value, vocab_size: int) -> Value | None:
    """A part of per_layer_input_width for each layer, side by side; None where there is none.

    The mean of a table's row and of a projection of the embedding x, but for a factor of sqrt(2).
    """
    width, layers = r.config.per_layer_input_width, r.config.num_layers
    if not width:
        return None
    table = r.weights.matrix("per_layer_token_embd.weight", vocab_size, layers * width)
    looked_up = r.builder.embed(table, math.sqrt(width))
    projected = r.linear(x, "per_layer_model_proj", layers * width)
    projected = r.builder.multiply(projected, 1 / math.sqrt(r.config.hidden_size))
    weight = r.weights.vector("per_layer_proj_norm.weight", width)
    projected = r.builder.rms_norm(projected, weight, r.config.norm_eps, layers)
    return r.builder.multiply(r.builder.add(projected, looked_up), 1 / math.sqrt(2))


def with_layer_input(r: Recorder, layer: int, x: Value) -> Value:
    """x plus the layer's own part, where the model has those."""
    return x if r.per_layer_inputs is None else r.builder.add(x, layer_part(r, layer, x))


def layer_part(r: Recorder, layer: int, x: Value) -> Value:
    """The layer's own part, which a projection of x gates."""
    prefix, width = f"blk.{layer}", r.config.per_layer_input_width
    if r.per_layer_inputs is None:
        raise GGUFError(
            f"{r.config.architecture}.embedding_length_per_layer_input is 0: "
            "the model needs inputs of layers"
        )
    part = r.builder.columns(r.per_layer_inputs, layer * width, width)
    gate = r.linear(x, f"{prefix}.inp_gate", width)
    gated = r.builder.gated(gate, part, "gelu_tanh")
    return r.norm(r.linear(gated, f"{prefix}.proj", r.config.hidden_size), f"{prefix}.post_norm")
