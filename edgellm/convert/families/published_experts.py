"""Families with experts whose code is published beside their weights, and not in `transformers`.

Sources: Snowflake 2024 (Arctic), xAI 2024 (Grok), Wu et al. 2025 (GroveMoE), MiniMax 2025, Song et
al. 2025 (SmallThinker), DeepSeek-AI 2025 (DeepSeek-OCR), and the code beside the weights.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgellm.convert.families.dense import INNER, VISION, windowed
from edgellm.convert.families.experts import NAMED, SIGMOID, SOFTMAX
from edgellm.convert.families.family import EXPERTS, PAIRS, Family
from edgellm.convert.families.varied import leading
from edgellm.convert.keys import Keys, decoder, rotary
from edgellm.convert.moves import (
    as_named,
    gate_and_up,
    one_more,
)
from edgellm.convert.settings import Settings


def _grok(s: Settings) -> Keys:
    """Settings of older checkpoints stand in the model's code. Yarn's stand beside others."""
    keys = decoder(s) | {
        "attn_logit_softcapping": s.number("attn_logit_softcapping", 30.0),
        "router_logit_softcapping": s.number("router_logit_softcapping", 30.0),
        "attention.output_scale": s.number("attn_output_multiplier", s.head_dim**-0.5),
        "embedding_scale": s.number("embedding_multiplier_scale", 1.0),
        "logit_scale": s.number("output_multiplier_scale", 1.0),
    }
    cap = s.optional_number("final_logit_softcapping")
    if cap:
        keys["final_logit_softcapping"] = cap
    if s.text("rope_type") in ("yarn", "original"):
        keys |= {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": s.number("scaling_factor", 1.0),
            "rope.scaling.original_context_length": s.integer("original_max_position_embeddings"),
            "rope.scaling.yarn_ext_factor": s.number("extrapolation_factor", 1.0),
            "rope.scaling.yarn_attn_factor": s.number("attn_factor", 1.0),
            "rope.scaling.yarn_beta_fast": s.number("beta_fast", 8.0),
            "rope.scaling.yarn_beta_slow": s.number("beta_slow", 1.0),
        }
    return keys


def _grovemoe(s: Settings) -> Keys:
    """Sizes of groups and their weight stand in the model's code."""
    return decoder(s) | {
        "expert_chunk_feed_forward_length": s.head_dim,
        "experts_per_group": 2,
        "expert_group_scale": 0.05,
    }


def _maple(s: Settings) -> Keys:
    """Layers that see all do not rotate; the model's code cuts what goes into gates at 7."""
    if not s.flag("nope_on_global_attention") or s.optional_integer("num_shared_experts"):
        raise s.wrong(
            "nope_on_global_attention",
            s.value("nope_on_global_attention"),
            "true, and no shared experts",
        )
    return windowed(s) | {"swiglu_clamp_exp": np.full(s.layers, 7.0, np.float32)}


def _minimax(s: Settings) -> Keys:
    """One factor for what blocks read, and none for what they give. Layers tell by their tensors
    whether they have a state."""
    alphas, betas = (
        {s.optional_number(*(name.format(factor) for name in names)) or 1.0 for names in _NORMED}
        for factor in ("alpha", "beta")
    )
    if len(alphas) != 1 or betas != {1.0}:
        given = sorted(alphas), sorted(betas)
        raise s.wrong("layernorm_mlp_alpha", given, "one factor for all blocks, and betas of 1")
    return decoder(s) | {"residual_scale": alphas.pop()} | _rotated(s)


def _rotated(s: Settings) -> Keys:
    """So many numbers of a head, where a setting says so."""
    rotated = s.optional_integer("rotary_dim")
    return rotary(s, rotated) if rotated else {}


_NORMED = (
    ("layernorm_full_attention_{}", "full_attn_{}_factor"),
    ("layernorm_linear_attention_{}", "linear_attn_{}_factor"),
    ("layernorm_mlp_{}", "mlp_{}_factor"),
)


def _minimax3(s: Settings) -> Keys:
    """An indexer picks the blocks of tokens that attention sees, in some layers."""
    sparse = s.group("sparse_attention_config")
    indexer = {
        "head_count": ("sparse_num_index_heads", "index_n_heads"),
        "key_length": ("sparse_index_dim", "index_head_dim"),
        "top_k": ("sparse_topk_blocks", "index_topk_blocks"),
        "block_size": ("sparse_block_size", "index_block_size"),
        "local_blocks": ("sparse_local_block", "index_local_blocks"),
    }
    shared = s.optional_integer("shared_intermediate_size") or s.integer("intermediate_size")
    keys = decoder(s) | {
        f"attention.indexer.{key}": sparse.optional_integer(old) or s.integer(new)
        for key, (old, new) in indexer.items()
    }
    return (
        keys
        | _rotated(s)
        | leading(s)
        | {
            "feed_forward_length": s.integer("dense_intermediate_size", "intermediate_size"),
            "expert_feed_forward_length": s.integer("intermediate_size"),
            "expert_shared_feed_forward_length": shared,
            "expert_shared_count": s.optional_integer("n_shared_experts") or 1,
            "expert_weights_norm": True,
            "expert_weights_scale": s.number("routed_scaling_factor", 1.0),
            "expert_gating_func": SIGMOID,
        }
    )


def _dense_layers(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The kinds of layers, from numbers that say so."""
    frequency = config.get("moe_layer_freq")
    if not isinstance(frequency, list):
        return {}
    return {"mlp_layer_types": ["sparse" if yes else "dense" for yes in frequency]}


def _phimoe(s: Settings) -> Keys:
    return windowed(s) | {"attention.layer_norm_rms_epsilon": s.number("rms_norm_eps", 1e-5)}


def _smallthinker(s: Settings) -> Keys:
    """Windows and layers without rotation are told by the same list, one of four."""
    layout = list(s.items("sliding_window_layout"))
    width = s.integer("moe_ffn_hidden_size")
    keys = decoder(s) | {
        "feed_forward_length": width,
        "expert_count": s.integer("moe_num_primary_experts"),
        "expert_used_count": s.integer("moe_num_active_primary_experts"),
        "expert_feed_forward_length": width,
        "expert_gating_func": SOFTMAX if s.flag("moe_primary_router_apply_softmax") else SIGMOID,
    }
    if any(layout):
        keys["attention.sliding_window"] = s.integer("sliding_window_size")
        keys["attention.sliding_window_pattern"] = np.array(layout[: s.layers], np.bool_)
    return keys


_BESIDE = {
    r"post_attention_layernorm\.weight$": as_named("{layer}.ffn_norm_exps.weight"),
    r"residual_layernorm\.weight$": as_named("{layer}.ffn_norm.weight"),
    **{
        rf"residual_mlp\.{n}\.weight$": as_named(f"{{layer}}.ffn_{part}.weight")
        for n, part in (("w1", "gate"), ("w2", "down"), ("w3", "up"))
    },
}
_GROK_NAMES = {
    r"\bmoe\.(\d+)\.linear\.": r"experts.\1.w1.",
    r"\bmoe\.(\d+)\.linear_1\.": r"experts.\1.w2.",
    r"\bmoe\.(\d+)\.linear_v\.": r"experts.\1.w3.",
}
_grok_row = Family("grok", _grok, EXPERTS, _GROK_NAMES)
_minimax_row = Family(
    "minimax-01",
    _minimax,
    {
        r"self_attn\.norm\.weight$": as_named("{layer}.attn_norm_2.weight"),
        r"self_attn\.output_gate\.weight$": as_named("{layer}.attn_gate.weight"),
        r"self_attn\.qkv_proj\.weight$": as_named("{layer}.attn_qkv.weight"),
        r"self_attn\.out_proj\.weight$": as_named("{layer}.attn_output.weight"),
        **EXPERTS,
    },
    left=(r"self_attn\.(slope_rate|(query|key|diagonal)_decay)$",),
    names_of=("minimax-m2",),
)
_MINIMAX3 = {
    **{
        rf"self_attn\.(indexer\.|index_){n}_proj\.weight$": as_named(
            f"{{layer}}.indexer.{n}_proj.weight"
        )
        for n in "qk"
    },
    **{
        rf"self_attn\.(indexer\.|index_){n}_norm\.weight$": as_named(
            f"{{layer}}.indexer.{n}_norm.weight", one_more
        )
        for n in "qk"
    },
    r"norm\.weight$": one_more,
    r"shared_experts\.gate_up_proj\.weight$": gate_and_up(
        "{layer}.ffn_gate_shexp.weight", "{layer}.ffn_up_shexp.weight"
    ),
    r"mlp\.gate_up_proj\.weight$": gate_and_up("{layer}.ffn_gate.weight", "{layer}.ffn_up.weight"),
    **EXPERTS,
    **NAMED,
}
_minimax3_row = Family(
    "minimax-m3",
    _minimax3,
    _MINIMAX3,
    INNER,
    (*VISION, r"^(model\.)?patch_merge_mlp\."),
    implied=_dense_layers,
    names_of=("minimax-m2", "glm4moe"),
)
_phimoe_row = Family(
    "phimoe",
    _phimoe,
    {r"mlp\.router\.weight$": as_named("{layer}.ffn_gate_inp.weight"), **EXPERTS},
    note="GGUF's graph weighs experts by their softmax and norms by root mean squares, the model's "
    "own code otherwise: logits differ from those of transformers, as in other converted files",
)
ROWS: Mapping[str, Family] = {
    "ArcticForCausalLM": Family(
        "arctic", moves={**PAIRS, **_BESIDE, **EXPERTS}, names_of=("llama",)
    ),
    "DeepseekOCRForCausalLM": Family(
        "deepseek2-ocr",
        moves=EXPERTS,
        left=(
            r"^model\.(sam_model|vision_model|qwen2_model|projector)\.",
            r"^model\.(image_newline|view_seperator)$",
        ),
    ),
    "Grok1ForCausalLM": _grok_row,
    "GrokForCausalLM": _grok_row,
    "GroveMoeForCausalLM": Family("grovemoe", _grovemoe, EXPERTS, left=(r"\.mlp\.expert_bias$",)),
    "MapleForCausalLM": Family("maple", _maple, EXPERTS, names_of=("qwen3moe",)),
    "MiniMaxText01ForCausalLM": _minimax_row,
    "MiniMaxM1ForCausalLM": _minimax_row,
    "MiniMaxForCausalLM": _minimax_row,
    "MiniMaxM3SparseForCausalLM": _minimax3_row,
    "MiniMaxM3SparseForConditionalGeneration": _minimax3_row,
    "MiniMaxM3VLForCausalLM": _minimax3_row,
    "PhiMoEForCausalLM": _phimoe_row,
    "PhimoeForCausalLM": _phimoe_row,
    "SmallThinkerForCausalLM": Family("smallthinker", _smallthinker, EXPERTS),
}
