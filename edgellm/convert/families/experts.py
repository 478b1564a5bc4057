"""Decoders with a mixture of experts."""

from collections.abc import Mapping

import numpy as np

from edgellm.convert.families.dense import (
    INNER,
    NO_OUTPUT_BIAS,
    VISION,
    check_rotation,
    clamp,
    granite,
    hunyuan,
    qwen2,
    qwen3vl,
    windowed,
    with_sections,
)
from edgellm.convert.families.expert_moves import (
    AFMOE,
    DBRX,
    GPT_OSS,
    GRANITE_MOE,
    LLAMA4,
    QWEN3VL,
)
from edgellm.convert.families.family import EXPERTS, PAIRS, Family
from edgellm.convert.keys import Keys, common, decoder, rotary, windows
from edgellm.convert.moves import as_named, without_ones
from edgellm.convert.settings import Settings

_KINDS = ("sliding_attention", "full_attention")
_MAVERICK = 128  # experts of the Llama 4 without norms of queries and keys
SOFTMAX, SIGMOID = 1, 2  # numbers of expert_gating_func
NAMED = {r"e_score_correction_bias$": as_named("{layer}.exp_probs_b.bias", without_ones)}


def groups(s: Settings) -> Keys:
    """Experts that are chosen by groups first."""
    groups = s.optional_integer("n_group")
    if not groups or groups == 1:
        return {}
    return {
        "expert_group_count": groups,
        "expert_group_used_count": s.integer("topk_group"),
    }


def _sigmoid(s: Settings) -> Keys:
    return decoder(s) | groups(s) | {"expert_gating_func": SIGMOID}


def _glm4vmoe(s: Settings) -> Keys:
    return _sigmoid(s) | with_sections(s)


def _gpt_oss(s: Settings) -> Keys:
    width = {"expert_feed_forward_length": s.integer("intermediate_size")}
    window = {"attention.sliding_window": s.integer("sliding_window")}
    return decoder(s) | width | (windows(s) if s.items("layer_types") else window)


def _olmoe(s: Settings) -> Keys:
    if s.value("clip_qkv"):
        raise s.wrong(
            "clip_qkv", s.value("clip_qkv"), "none: values are cut before their norm here"
        )
    return decoder(s)


def _granitemoe(s: Settings) -> Keys:
    shared = s.optional_integer("shared_intermediate_size")
    return granite(s) | ({"expert_shared_feed_forward_length": shared} if shared else {})


def _qwen2moe(s: Settings) -> Keys:
    if s.items("mlp_only_layers") or (s.optional_integer("decoder_sparse_step") or 1) != 1:
        raise s.wrong("mlp_only_layers", s.items("mlp_only_layers"), "experts in every layer")
    return qwen2(s)


def _llama4(s: Settings) -> Keys:
    """Chunks for windows; blocks without experts have a width of their own."""
    check_rotation(s)
    if s.flag("use_qk_norm", True) != (s.optional_integer("num_local_experts") != _MAVERICK):
        expected = f"true unless there are {_MAVERICK} experts: no key says it"
        raise s.wrong("use_qk_norm", s.flag("use_qk_norm", True), expected)
    chunked = [kind == "chunked_attention" for kind in s.items("layer_types")]
    pattern = np.array(chunked, np.bool_)
    return decoder(s) | {
        "attention.sliding_window": s.integer("attention_chunk_size"),
        **({"attention.sliding_window_pattern": pattern} if chunked else {}),
        "feed_forward_length": s.integer("intermediate_size_mlp"),
        "expert_feed_forward_length": s.integer("intermediate_size"),
        "interleave_moe_layer_step": s.optional_integer("interleave_moe_layer_step") or 1,
    }


def _hunyuan(s: Settings) -> Keys:
    keys = hunyuan(s)
    used = set(s.integers("moe_topk")) or {s.integer("moe_topk")}
    if len(used) != 1:
        raise s.wrong("moe_topk", sorted(used), "one number for all layers")
    return keys | {
        "expert_used_count": used.pop(),
        "expert_feed_forward_length": s.integer("intermediate_size"),
        "expert_shared_feed_forward_length": s.integer("intermediate_size"),
    }


def _exaone(s: Settings) -> Keys:
    shared = s.optional_integer("num_shared_experts") or 0
    width = shared * s.integer("moe_intermediate_size")
    keys = _sigmoid(s) | windows(s)
    return keys | {"expert_shared_feed_forward_length": width}


def _afmoe(s: Settings) -> Keys:
    if not s.flag("mup_enabled"):
        raise s.wrong("mup_enabled", False, "true: embeddings are multiplied")
    kinds = list(s.items("layer_types"))
    if kinds and kinds != [_KINDS[i % 4 == 3] for i in range(s.layers)]:
        raise s.wrong("layer_types", kinds, "every fourth layer sees all, and does not rotate")
    return (
        _sigmoid(s)
        | windows(s)
        | {
            "expert_weights_scale": s.number("route_scale", 1.0),
            "expert_weights_norm": s.flag("route_norm", True),
        }
    )


def _cohere2moe(s: Settings) -> Keys:
    """Layers before the first with experts are told one by one, or counted."""
    kinds = list(s.items("mlp_layer_types"))
    dense = next((i for i, kind in enumerate(kinds) if kind != "dense"), len(kinds))
    shared = s.optional_integer("num_shared_experts") or 0
    width = s.integer("intermediate_size")
    gating = SIGMOID if s.text("expert_selection_fn") == "sigmoid" else SOFTMAX
    keys = (
        decoder(s)
        | windows(s)
        | {
            "logit_scale": s.number("logit_scale", 1.0),
            "expert_feed_forward_length": width,
            "expert_shared_feed_forward_length": width * shared,
            "expert_gating_func": gating,
            "leading_dense_block_count": dense,
        }
    )
    keys["feed_forward_length"] = s.optional_integer("prefix_dense_intermediate_size") or width
    return keys


def _dbrx(s: Settings) -> Keys:
    attention, blocks = s.group("attn_config"), s.group("ffn_config")
    keys = (
        common(s)
        | rotary(s, s.head_dim)
        | {
            "attention.head_count_kv": attention.integer("kv_n_heads"),
            "attention.layer_norm_epsilon": 1e-5,
            "feed_forward_length": blocks.integer("ffn_hidden_size"),
            "expert_count": blocks.integer("moe_num_experts"),
            "expert_used_count": blocks.integer("moe_top_k"),
            "rope.freq_base": s.rope.optional_number("rope_theta")
            or attention.number("rope_theta", 10000.0),
        }
    )
    return keys | clamp(attention)


def _ernie(s: Settings) -> Keys:
    keys = decoder(s)
    keys["leading_dense_block_count"] = s.optional_integer("moe_layer_start_index") or 0
    keys["interleave_moe_layer_step"] = s.optional_integer("moe_layer_interval") or 1
    shared = s.optional_integer("moe_num_shared_experts")
    if shared:
        width = shared * s.integer("moe_intermediate_size")
        keys["expert_shared_feed_forward_length"] = width
    return keys


_llama4_row = Family("llama4", _llama4, LLAMA4, INNER, VISION)

ROWS: Mapping[str, Family] = {
    "AfmoeForCausalLM": Family("afmoe", _afmoe, AFMOE),
    "Cohere2MoeForCausalLM": Family("cohere2moe", _cohere2moe, EXPERTS, names_of=("qwen2moe",)),
    "MellumForCausalLM": Family("mellum", windowed, EXPERTS, names_of=("qwen3moe",)),
    "DbrxForCausalLM": Family("dbrx", _dbrx, DBRX),
    "ExaoneMoeForCausalLM": Family("exaone-moe", _exaone, {**EXPERTS, **NAMED}),
    "HunYuanMoEV1ForCausalLM": Family("hunyuan-moe", _hunyuan, EXPERTS),
    "Llama4ForCausalLM": _llama4_row,
    "Llama4ForConditionalGeneration": _llama4_row,
    "Qwen3VLMoeForConditionalGeneration": Family("qwen3vlmoe", qwen3vl, QWEN3VL, INNER, VISION),
    "Dots1ForCausalLM": Family("dots1", _sigmoid, {**EXPERTS, **NAMED}),
    "Ernie4_5_MoeForCausalLM": Family(
        "ernie4_5-moe", _ernie, {**EXPERTS, **NAMED, **NO_OUTPUT_BIAS}
    ),
    "Glm4MoeForCausalLM": Family("glm4moe", _sigmoid, {**EXPERTS, **NAMED}),
    "Glm4vMoeForConditionalGeneration": Family(
        "glm4moe", _glm4vmoe, {**EXPERTS, **NAMED}, INNER, VISION
    ),
    "SolarOpenForCausalLM": Family(
        "glm4moe", _sigmoid, {**EXPERTS, **NAMED}, defaults={"first_k_dense_replace": 0}
    ),
    "GptOssForCausalLM": Family("gpt-oss", _gpt_oss, GPT_OSS),
    "GraniteMoeForCausalLM": Family("granitemoe", _granitemoe, GRANITE_MOE),
    "GraniteMoeSharedForCausalLM": Family("granitemoe", _granitemoe, GRANITE_MOE),
    "MixtralForCausalLM": Family("llama", windowed, {**PAIRS, **EXPERTS}),
    "OlmoeForCausalLM": Family("olmoe", _olmoe, EXPERTS),
    "Qwen2MoeForCausalLM": Family("qwen2moe", _qwen2moe, EXPERTS),
    "Qwen3MoeForCausalLM": Family("qwen3moe", _qwen2moe, EXPERTS),
    "MiniMaxM2ForCausalLM": Family("minimax-m2", _sigmoid, {**EXPERTS, **NAMED}),
}
