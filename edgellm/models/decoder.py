"""The shared decoder: embedding, layers of two residual blocks, norm, logits.

Which block a layer has is read off its tensors, so that hybrid models need nothing more.
"""

import math
from collections.abc import Callable

from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGUFFile
from edgellm.kernels.program import Program, Value
from edgellm.models.attention import grouped_query_attention
from edgellm.models.config import ModelConfig
from edgellm.models.feed_forward import expert_mlp, gated_mlp
from edgellm.models.recorder import Recorder
from edgellm.models.registry import architecture
from edgellm.models.weights import Weights

Block = Callable[[Recorder, int, Value], Value]

# The first tensor that a layer has names its block; the last row is what is expected of it.
MIXERS: tuple[tuple[str, Block], ...] = (("attn_q", grouped_query_attention),)
FEED_FORWARDS: tuple[tuple[str, Block], ...] = (
    ("ffn_gate_inp", expert_mlp),
    ("ffn_up", gated_mlp),
)


def record(file: GGUFFile, config: ModelConfig, context_length: int) -> Program:
    """The forward pass of the model in `file`; its output is "logits" (outputs, vocab_size).

    GGUFError names a tensor that is missing, of the wrong shape or type, or not understood.
    """
    row = architecture(config.architecture)
    r = Recorder(config, row, Weights(file), context_length)
    b = r.builder
    vocab_size = _vocab_size(file)
    table = r.weights.matrix("token_embd.weight", vocab_size, config.hidden_size)
    x = b.embed(table, math.sqrt(config.hidden_size) if row.scaled_embedding else 1.0)
    for layer in range(config.num_layers):
        x = _layer(r, layer, x)
    x = r.norm(b.select_outputs(x), "output_norm")
    logits = r.linear(x, "output", vocab_size) if r.has("output") else b.matmul(x, table)
    if config.final_softcap is not None:
        logits = b.softcap(logits, config.final_softcap)
    r.weights.refuse_unread()
    return b.finish(logits=logits)


def _layer(r: Recorder, layer: int, x: Value) -> Value:
    prefix, b = f"blk.{layer}", r.builder
    mixed = _block(MIXERS, r, layer)(r, layer, r.norm(x, f"{prefix}.attn_norm"))
    ffn_norm, post_norm = f"{prefix}.ffn_norm", f"{prefix}.post_attention_norm"
    if r.has(post_norm) and not r.has(ffn_norm):
        ffn_norm = post_norm  # Hugging Face's name for the norm before the feed-forward block
    else:
        mixed = r.optional_norm(mixed, post_norm)
    x = b.add(x, mixed)
    out = _block(FEED_FORWARDS, r, layer)(r, layer, r.norm(x, ffn_norm))
    return b.add(x, r.optional_norm(out, f"{prefix}.post_ffw_norm"))


def _block(table: tuple[tuple[str, Block], ...], r: Recorder, layer: int) -> Block:
    for tensor, block in table:
        if r.has(f"blk.{layer}.{tensor}"):
            return block
    return table[-1][1]


def _vocab_size(file: GGUFFile) -> int:
    info = file.tensors.get("token_embd.weight")
    if info is None:
        raise GGUFError("tensor token_embd.weight is missing: the file holds no language model")
    return int(info.rows)
