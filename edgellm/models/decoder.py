"""The shared decoder: embedding, layers of two residual blocks, norm, logits.

Which block a layer has is read off its tensors, so that hybrid models need nothing more.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGUFFile
from edgellm.kernels.program import Program, Value, Weight
from edgellm.models.adapters import Adapter
from edgellm.models.altup import altup_layers
from edgellm.models.attention import grouped_query_attention
from edgellm.models.config import ModelConfig
from edgellm.models.config_reader import read_config
from edgellm.models.convolution import gated_short_convolution
from edgellm.models.cycles import cycling_layers
from edgellm.models.delta_net import gated_delta_net, kimi_delta_attention
from edgellm.models.embedding import embedding
from edgellm.models.experts import expert_mlp
from edgellm.models.experts_beside import experts_beside_layer, experts_beside_mlp
from edgellm.models.experts_of_groups import experts_of_groups
from edgellm.models.feed_forward import mlp
from edgellm.models.latent import latent_attention
from edgellm.models.lightning import lightning_attention
from edgellm.models.mtp import MTPHead, head_tensor, record_head
from edgellm.models.per_layer_inputs import per_layer_inputs, with_layer_input
from edgellm.models.recorder import Recorder
from edgellm.models.registry import architecture
from edgellm.models.relative import relative_attention
from edgellm.models.rwkv import channel_mix, time_mix
from edgellm.models.rwkv6 import data_dependent_time_mix
from edgellm.models.state_space import mamba, mamba2_beside_attention
from edgellm.models.weights import Weights

Block = Callable[[Recorder, int, Value], Value]

# The first tensor that a layer has names its block; the last row is what is expected of it.
MIXERS: tuple[tuple[str, Block], ...] = (
    ("shortconv.conv", gated_short_convolution),
    ("time_mix_lerp_x", data_dependent_time_mix),
    ("time_mix_receptance", time_mix),
    ("ssm_conv1d_q", kimi_delta_attention),
    ("ssm_x", mamba),
    ("ssm_d", mamba2_beside_attention),
    ("ssm_a", gated_delta_net),
    ("attn_kv_a_mqa", latent_attention),
    ("attn_o", relative_attention),
    ("attn_qkv", grouped_query_attention),
    ("attn_q", grouped_query_attention),
)
FEED_FORWARDS: tuple[tuple[str, Block], ...] = (
    ("channel_mix_key", channel_mix),
    ("ffn_norm_exps", experts_beside_layer),
    ("post_ffw_norm_1", experts_beside_mlp),
    ("ffn_gate_chexps", experts_of_groups),
    ("ffn_gate_inp", expert_mlp),
    ("ffn_down_exps", expert_mlp),
    ("ffn_up", mlp),
)


def record(
    file: GGUFFile, config: ModelConfig, context_length: int, adapters: tuple[Adapter, ...] = ()
) -> Program:
    """The forward pass of the model in `file`. Its outputs are "hidden" (tokens, hidden_size), and
    of a model that is causal "logits" (outputs, vocab_size).

    adapters: those that sequences may take part in. GGUFError names a tensor that is missing, of
    the wrong shape or type, or not understood.
    """
    r, table, outputs = _recorded(file, config, context_length, adapters)
    r.adapting.refuse_unused()
    return r.builder.finish(table.rows, **outputs)


def record_with_head(
    file: GGUFFile, config: ModelConfig, context_length: int, adapters: tuple[Adapter, ...] = ()
) -> tuple[Program, MTPHead | None]:
    """Like `record`, with the head that predicts one token more, where the file has one.

    The head's cache is a layer of both programs; the model's has what the head reads among its
    outputs.
    """
    reads, layer = architecture(config.architecture).mtp_reads, config.num_layers
    if reads is None or head_tensor(layer) not in file.tensors:
        return record(file, config, context_length, adapters), None
    r, table, outputs = _recorded(file, config, context_length, adapters)
    b, own_calls = r.builder, len(r.builder.calls)
    h = Recorder(
        read_config(file, with_heads=True),
        r.architecture,
        Weights(file, r.architecture.absent, r.architecture.unused),
        context_length,
        adapters,
        b,
    )
    h.adapting = r.adapting
    head = record_head(h, layer, table, _layer, _logits)
    r.adapting.refuse_unused()
    both = b.finish(table.rows, **outputs)
    own = replace(both, calls=both.calls[:own_calls])
    ahead = replace(both, calls=both.calls[own_calls:], outputs=head.outputs, state_layers=())
    return own, MTPHead(ahead, head.given, head.embedding, reads)


def _recorded(
    file: GGUFFile, config: ModelConfig, context_length: int, adapters: tuple[Adapter, ...]
) -> tuple[Recorder, Weight, dict[str, Value]]:
    """The model's own calls in a recorder; its embedding, and its outputs by name."""
    row = architecture(config.architecture)
    is_bounded = row.exact_within or row.scaled_beyond is not None
    if is_bounded and context_length > config.context_length:
        differs = (
            "attention sees what an indexer picks" if row.exact_within else "queries are scaled"
        )
        raise GGUFError(
            f"beyond {config.context_length} tokens {differs}, which is not supported; a context "
            f"of {context_length} is asked for: give one of at most {config.context_length}"
        )
    weights = Weights(file, row.absent, row.unused, row.part, config.num_layers)
    r = Recorder(config, row, weights, context_length, adapters)
    b = r.builder
    vocab_size = _vocab_size(file)
    table = r.weights.matrix("token_embd.weight", vocab_size, config.hidden_size)
    x = embedding(r, table)
    r.per_layer_inputs = per_layer_inputs(r, x, vocab_size)
    if config.altup is not None:
        x = altup_layers(r, config.altup, x)
    elif config.cycles is not None:
        x = cycling_layers(r, config.cycles, x, _layer)
    else:
        x = _layers(r, x)
    outputs = {"hidden": x if row.output_norm is None else r.norm(x, row.output_norm)}
    if row.mtp_reads is not None:
        outputs.setdefault(row.mtp_reads, x)
    if config.causal:
        outputs["logits"] = _logits(r, b.select_outputs(outputs["hidden"]), table)
    else:
        r.weights.leave("output.weight")
    r.weights.check()
    return r, table, outputs


def _logits(r: Recorder, x: Value, table: Weight, name: str = "output") -> Value:
    """By the file's matrix of this name, or by the one of embeddings and a bias of this name."""
    if r.has(name):
        logits = r.linear(x, name, table.rows)
    else:
        bias = r.weights.optional_vector(f"{name}.bias", table.rows)
        logits = r.builder.matmul(x, table, bias)
    logits = _scaled(r, logits, r.architecture.logit_factor(r.config))
    cap = r.config.final_softcap
    return logits if cap is None else r.builder.softcap(logits, cap)


def _layers(r: Recorder, x: Value) -> Value:
    """All of them, as often as the model runs through them."""
    for loop in range(r.config.loops):
        if loop and r.config.norms_loops and r.architecture.output_norm is not None:
            x = r.norm(x, r.architecture.output_norm)
        x = _loop(r, x)
    return x


def _loop(r: Recorder, x: Value) -> Value:
    b, halved_every = r.builder, r.config.recurrent.sizes.get("rescale_every_n_layers")
    layer_of = _skipping_layer if r.architecture.may_skip else _layer
    embedded = x
    for layer in range(r.config.num_layers):
        x = with_layer_input(r, layer, layer_of(r, layer, x))
        weight = r.weights.optional_vector(f"blk.{layer}.layer_output_scale.weight", 1)
        if weight is not None:
            scale = float(weight.data.view(np.float32)[0, 0])
            if r.architecture.adds_embedding:
                x = b.add(x, b.multiply(embedded, scale))
            else:
                x = b.multiply(x, scale)
        if halved_every and (layer + 1) % halved_every == 0:
            x = b.multiply(x, 0.5)  # as the weights of what follows were, so that halves hold it
        x = r.adapting.layer(x, layer)
    return x


def _skipping_layer(r: Recorder, layer: int, x: Value) -> Value:
    """Less than others, as its numbers of heads and its width say. Source: Bercovich et al. 2024
    (Puzzle).
    """
    b, config, prefix = r.builder, r.config, f"blk.{layer}"
    if config.num_heads[layer]:
        normed = r.norm(x, f"{prefix}.attn_norm")
        if config.num_kv_heads[layer]:
            x = b.add(x, grouped_query_attention(r, layer, normed))
        else:
            x = b.add(x, r.linear(normed, f"{prefix}.attn_output", config.hidden_size))
    if config.intermediate_size[layer]:
        x = b.add(x, mlp(r, layer, r.norm(x, f"{prefix}.ffn_norm")))
    return x


def _layer(r: Recorder, layer: int, x: Value) -> Value:
    prefix, b = f"blk.{layer}", r.builder
    if r.architecture.residual == "normed_sums":
        return _layer_of_normed_sums(r, layer, x)
    if r.architecture.residual == "normed_inputs":
        return _layer_of_normed_inputs(r, layer, x)
    r.layer_input = x
    has_norm = r.architecture.pre_norm and not (r.architecture.embedding_normed and layer == 0)
    normed = r.norm(x, f"{prefix}.attn_norm") if has_norm else x
    factor = r.architecture.residual_factor(r.config)
    if r.architecture.residual == "single":
        block = _block((*MIXERS, *FEED_FORWARDS), r, layer)
        return b.add(x, _scaled(r, block(r, layer, normed), factor))
    mixer, feed_forward = _block(MIXERS, r, layer), _block(FEED_FORWARDS, r, layer)
    # A second norm before attention leaves the first one to the feed-forward block.
    second, ffn_norm = f"{prefix}.attn_norm_2", f"{prefix}.{r.architecture.ffn_norm}"
    has_second = second != ffn_norm and r.offers(second)
    mixed = mixer(r, layer, r.norm(x, second) if has_second else normed)
    post_norm = f"{prefix}.{r.architecture.post_norm}"
    has_post_norm = r.offers(post_norm)
    if r.architecture.pre_norm and has_post_norm and not r.offers(ffn_norm):
        ffn_norm = post_norm  # Hugging Face's name for the norm before the feed-forward block
    elif has_post_norm or not r.architecture.pre_norm:
        mixed = r.norm(mixed, post_norm, r.architecture.post_norm_eps)
    after = b.add(x, _scaled(r, mixed, factor))
    r.attended = after
    if not _is_parallel(r, layer):
        normed = r.norm(after, ffn_norm) if r.architecture.pre_norm else after
    elif r.offers(ffn_norm):
        normed = r.norm(x, ffn_norm)
    out = feed_forward(r, layer, normed)
    ffw_norms = [f"{prefix}.{name}" for name in r.architecture.ffn_post_norms]
    ffw_norm = next((name for name in ffw_norms if r.offers(name)), ffw_norms[0])
    if r.offers(ffw_norm) or not r.architecture.pre_norm:
        out = r.norm(out, ffw_norm, r.architecture.post_norm_eps)
    return b.add(after, _scaled(r, out, factor))


def _layer_of_normed_sums(r: Recorder, layer: int, x: Value) -> Value:
    """As in the first transformers. Source: Vaswani et al. 2017."""
    prefix, b = f"blk.{layer}", r.builder
    mixed = r.norm(b.add(_block(MIXERS, r, layer)(r, layer, x), x), f"{prefix}.attn_output_norm")
    if r.offers(f"{prefix}.attn_norm_2"):  # JinaBERT adds what the layer reads once more
        mixed = r.norm(b.add(mixed, x), f"{prefix}.attn_norm_2")
    out = _block(FEED_FORWARDS, r, layer)(r, layer, mixed)
    return r.norm(b.add(out, mixed), f"{prefix}.layer_output_norm")


def _layer_of_normed_inputs(r: Recorder, layer: int, x: Value) -> Value:
    """What a block adds to is what it reads, times the file's factor. Source: MiniMax 2025."""
    prefix, factor = f"blk.{layer}", r.architecture.residual_factor(r.config)
    is_linear = r.config.linear_layers[layer]
    mixer = lightning_attention if is_linear else grouped_query_attention
    for block, norm in ((mixer, "attn_norm"), (_block(FEED_FORWARDS, r, layer), "ffn_norm")):
        normed = r.norm(x, f"{prefix}.{norm}")
        x = r.builder.add(_scaled(r, normed, factor), block(r, layer, normed))
    return x


def _is_parallel(r: Recorder, layer: int) -> bool:
    """Whether the feed-forward block reads what attention reads, not what it adds up to."""
    match r.architecture.residual:
        case "by_key":
            return r.config.parallel_residual
        case "by_norm":
            return not r.offers(f"blk.{layer}.{r.architecture.ffn_norm}")
        case kind:
            return kind == "parallel"


def _scaled(r: Recorder, x: Value, factor: float) -> Value:
    return x if factor == 1 else r.builder.multiply(x, factor)


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
