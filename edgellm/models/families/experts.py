"""Decoders with a mixture of experts, with latent attention, or with both."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from edgellm.models.architecture import Architecture, PositionScale, every_layer
from edgellm.models.families import dense

if TYPE_CHECKING:
    from edgellm.models.config import ModelConfig


# Layers with experts may come with those of a block without any, which is then not there.
MLP_BESIDE_EXPERTS = tuple(
    f"ffn_{name}.{part}" for name in ("gate", "up", "down") for part in ("weight", "scale")
)


# What picks the tokens that attention sees, where there are more than it picks.
INDEXER = (
    *("indexer.k_norm.weight", "indexer.k_norm.bias", "indexer.proj.weight"),
    *("indexer.attn_k.weight", "indexer.attn_q_b.weight"),
)
BLOCK_INDEXER = tuple(f"indexer.{part}.weight" for part in ("q_proj", "k_proj", "q_norm", "k_norm"))


def _not_every_fourth_of_windowed(config: "ModelConfig", layer: int) -> bool:
    """The last of each four layers has no positions, in models with windows."""
    return layer % 4 != 3 or not any(config.windows)


def _not_first_of_four_of_windowed(config: "ModelConfig", layer: int) -> bool:
    """The first of each four layers has no positions, in models with windows and more layers."""
    return layer % 4 != 0 or not any(config.windows) or config.num_layers == 4


def _is_windowed_or_dense(config: "ModelConfig", layer: int) -> bool:
    """Layers that see everything have no positions, but for those before the first experts."""
    return config.windows[layer] is not None or layer < config.leading_dense_layers


def _norms_queries_and_keys(config: "ModelConfig") -> bool:
    """Maverick, of 128 experts, does not. No key says so."""
    return config.experts is None or config.experts.count != 128


# Files of before the keys hold Grok-1: multipliers of its configuration.
def _grok_embedding_factor(config: "ModelConfig") -> float:
    return config.embedding_scale or 78.38367176906169


def _grok_logit_factor(config: "ModelConfig") -> float:
    return config.logit_scale or 0.5773502691896257


def _grok_attention_width(config: "ModelConfig") -> float:
    return 128.0


ROWS: Mapping[str, Architecture] = {
    "afmoe": Architecture(
        rope="split",
        rotates=dense.not_every_fourth,
        local_rope_scaled=True,
        window_period=4,
        embedding_factor=dense.root_of_hidden_size,
        gating="sigmoid",
    ),
    "arctic": Architecture(rope="interleaved", normalize_gates=True),
    "bailingmoe": Architecture(rope="interleaved"),
    "bailingmoe2": Architecture(
        rope="split", gating="sigmoid", shared_width_each=True, mtp_reads="hidden"
    ),
    "cohere2moe": Architecture(
        rope="interleaved",
        rotates=_is_windowed_or_dense,
        window_period=4,
        full_first=True,
        norm="by_key",
        residual="parallel",
        logit_factor=dense.cohere_logit_factor,
        gating="sigmoid",
        shared_factor=0.5,
    ),
    "dbrx": Architecture(
        rope="split", norm="layer", ffn_norm="attn_output_norm", normalize_gates=True
    ),
    "deepseek": Architecture(rope="interleaved"),
    "deepseek2": Architecture(rope="interleaved", group_best=1, mtp_reads="hidden"),
    "deepseek32": Architecture(
        rope="interleaved",
        mtp_reads="hidden",
        exact_within=("attention.indexer.top_k",),
        absent=INDEXER,
    ),
    "deepseek2-ocr": Architecture(  # text
        rope="split", refused_keys=("attention.sliding_window",)
    ),
    "dots1": Architecture(rope="split", gating="sigmoid"),
    "dots3note": Architecture(
        rope="interleaved",
        local_rope_scaled=True,
        gating="sigmoid",
        exact_within=("attention.indexer.top_k",),
        absent=INDEXER,
    ),
    "ernie4_5-moe": Architecture(
        rope="interleaved", normalize_gates=True, absent=("attn_output.bias",)
    ),
    "exaone-moe": Architecture(
        rope="split", rotates=dense.is_windowed, window_period=4, gating="sigmoid"
    ),
    "glm-dsa": Architecture(
        rope="interleaved",
        gating="sigmoid",
        mtp_reads="hidden",
        exact_within=("attention.indexer.top_k",),
        absent=INDEXER,
    ),
    "glm4moe": Architecture(rope="split", gating="sigmoid", mtp_reads="hidden"),
    "gpt-oss": Architecture(
        rope="split",
        local_rope_scaled=True,
        yarn_truncate=False,
        window_period=2,
        activation="swiglu_clamped",
        activation_alpha=1.702,
        activation_limit=7.0,
        gating="softmax_selected",
    ),
    "granitemoe": replace(dense.ROWS["granite"], rotates=every_layer),
    "grok": Architecture(
        rope="split",
        yarn_beta_fast=8.0,
        post_norm="attn_output_norm",
        ffn_post_norms=("layer_output_norm", "post_ffw_norm"),
        attention_width=_grok_attention_width,
        attention_scale_key="attention.output_scale",
        attention_softcap=30.0,
        final_softcap=0.0,
        router_softcap=30.0,
        embedding_factor=_grok_embedding_factor,
        logit_factor=_grok_logit_factor,
        activation="gelu_tanh",
        normalize_gates=True,
        mlp_beside_experts=True,
        scaled_beyond="attention.temperature_length",
    ),
    "grovemoe": Architecture(rope="split", normalize_gates=True, experts_share_width=True),
    "hunyuan-moe": Architecture(
        rope="split", qk_norm_last=True, normalize_gates=True, experts_full_width=True
    ),
    "hy_v3": Architecture(rope="split", gating="sigmoid", unused=MLP_BESIDE_EXPERTS),
    "laguna": Architecture(
        rope="split",
        local_rope=True,
        window_period=4,
        full_first=True,
        attention_gate="softplus",
        gating="sigmoid",
    ),
    "llama4": Architecture(
        rope="interleaved",
        rotates=_not_every_fourth_of_windowed,
        local_rope_scaled=True,
        window_period=4,
        default_window=8192,
        chunked_windows=True,
        unrotated_scale=PositionScale(length=8192, factor=0.1, offset=1),
        plain_qk_norm=_norms_queries_and_keys,
        gating="sigmoid",
        shared_experts=1,
        weigh_inputs=True,
    ),
    "maple": Architecture(
        rope="split",
        rotates=dense.only_windowed,
        local_rope_scaled=True,
        normalize_gates=True,
        limits_gate_input=True,
    ),
    "mellum": Architecture(
        rope="split",
        local_rope=True,
        window_period=4,
        normalize_gates=True,
        experts_share_width=True,
    ),
    "mimo2": Architecture(
        rope="split",
        local_rope=True,
        local_rope_base=10000.0,
        gating="sigmoid",
        normalize_gates=True,
        absent=("attn_q.bias", "attn_k.bias", "attn_v.bias"),
        unused=MLP_BESIDE_EXPERTS,
    ),
    "minicpm3": replace(dense.ROWS["minicpm"], rope="split"),
    "minimax-m2": Architecture(
        rope="split", gating="sigmoid", normalize_gates=True, experts_full_width=True
    ),
    "minimax-m3": Architecture(
        rope="split",
        activation="swiglu_clamped",
        activation_alpha=1.702,
        activation_limit=7.0,
        gating="sigmoid",
        exact_within=("attention.indexer.top_k", "attention.indexer.block_size"),
        absent=BLOCK_INDEXER,
    ),
    "mistral4": Architecture(rope="interleaved"),
    "olmoe": Architecture(rope="split"),
    "phimoe": Architecture(rope="split", normalize_gates=True),
    "plm": Architecture(rope="interleaved", activation="relu2", gated=False),
    "qwen2moe": Architecture(rope="split", experts_share_width=True),
    "qwen3moe": Architecture(rope="split", normalize_gates=True, experts_share_width=True),
    "qwen3vlmoe": Architecture(rope="split", normalize_gates=True, experts_share_width=True),
    "smallthinker": Architecture(
        rope="split",
        rotates=_not_first_of_four_of_windowed,
        local_rope_scaled=True,
        window_period=4,
        full_first=True,
        activation="relu",
        normalize_gates=True,
        early_router=True,
    ),
    "step35": Architecture(
        rope="split",
        local_rope=True,
        local_rope_base=10000.0,
        rotary_divisor=2,
        gating="sigmoid",
        mtp_reads="stream",
        unused=MLP_BESIDE_EXPERTS,
    ),
}
