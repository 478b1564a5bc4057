"""Decoders with a mixture of experts."""

from collections.abc import Mapping

from edgellm.convert.families.dense import granite
from edgellm.convert.families.family import FUSED_EXPERTS, PAIRS, Family
from edgellm.convert.keys import Keys, common, decoder, rotary, windows
from edgellm.convert.moves import (
    as_named,
    gate_and_up,
    latent_keys_and_values,
    turned,
    turned_gate_and_up,
    without_ones,
)
from edgellm.convert.settings import Settings

_SOFTMAX, _SIGMOID = 1, 2  # numbers of expert_gating_func
_DOWN = {r"\bexperts\.down_proj(\.weight)?$": as_named("{layer}.ffn_down_exps.weight")}
_EXPERTS = {**FUSED_EXPERTS, **_DOWN}
_NAMED = {r"e_score_correction_bias$": as_named("{layer}.exp_probs_b.bias", without_ones)}


def _mixtral(s: Settings) -> Keys:
    return decoder(s) | windows(s)


def _sigmoid(s: Settings) -> Keys:
    return decoder(s) | {"expert_gating_func": _SIGMOID}


def _groups(s: Settings) -> Keys:
    """Experts that are chosen by groups first."""
    groups = s.optional_integer("n_group")
    if not groups or groups == 1:
        return {}
    return {
        "expert_group_count": groups,
        "expert_group_used_count": s.integer("topk_group"),
    }


def latent(s: Settings) -> Keys:
    """Attention over latents: one head of keys, as wide as the latent and the positions."""
    rank, position = s.integer("kv_lora_rank"), s.integer("qk_rope_head_dim")
    keys = common(s) | rotary(s, position)
    keys |= {
        "attention.head_count_kv": 1,
        "attention.kv_lora_rank": rank,
        "attention.key_length": rank + position,
        "attention.value_length": rank,
        "attention.key_length_mla": s.integer("qk_nope_head_dim") + position,
        "attention.value_length_mla": s.integer("v_head_dim"),
        "leading_dense_block_count": s.optional_integer("first_k_dense_replace") or 0,
    }
    queries = s.optional_integer("q_lora_rank")
    if queries:
        keys["attention.q_lora_rank"] = queries
    multiplier = s.rope.optional_number("mscale_all_dim")
    if multiplier:
        keys["rope.scaling.yarn_log_multiplier"] = 0.1 * multiplier
    keys.pop("rope.scaling.yarn_attn_factor", None)  # made of the multiplier
    return keys


def _deepseek2(s: Settings) -> Keys:
    keys = latent(s)
    if not s.flag("rope_interleave", True):
        raise s.wrong("rope_interleave", False, "true: other orders of rotation are not known")
    return keys | _groups(s) | {"expert_gating_func": _SOFTMAX}


def _deepseek3(s: Settings) -> Keys:
    return _deepseek2(s) | {"expert_gating_func": _SIGMOID}


def _glm4moe(s: Settings) -> Keys:
    return _sigmoid(s) | _groups(s)


def _gpt_oss(s: Settings) -> Keys:
    keys = decoder(s) | {
        "attention.sliding_window": s.integer("sliding_window"),
        "expert_feed_forward_length": s.integer("intermediate_size"),
    }
    return keys


def _granitemoe(s: Settings) -> Keys:
    shared = s.optional_integer("shared_intermediate_size")
    return granite(s) | ({"expert_shared_feed_forward_length": shared} if shared else {})


def _qwen2moe(s: Settings) -> Keys:
    if s.items("mlp_only_layers") or (s.optional_integer("decoder_sparse_step") or 1) != 1:
        raise s.wrong("mlp_only_layers", s.items("mlp_only_layers"), "experts in every layer")
    return decoder(s)


def _ernie(s: Settings) -> Keys:
    keys = decoder(s)
    keys["leading_dense_block_count"] = s.optional_integer("moe_layer_start_index") or 0
    keys["interleave_moe_layer_step"] = s.optional_integer("moe_layer_interval") or 1
    shared = s.optional_integer("moe_num_shared_experts")
    if shared:
        width = shared * s.integer("moe_intermediate_size")
        keys["expert_shared_feed_forward_length"] = width
    return keys


_GPT_OSS = {
    r"self_attn\.sinks$": as_named("{layer}.attn_sinks.weight"),
    r"mlp\.router\.(weight|bias)$": lambda name, weight, s: as_named(
        f"{{layer}}.ffn_gate_inp.{name.rsplit('.', 1)[1]}"
    )(name, weight, s),
    r"experts\.gate_up_proj_bias$": gate_and_up(
        "{layer}.ffn_gate_exps.bias", "{layer}.ffn_up_exps.bias", interleaved=True
    ),
    r"experts\.down_proj_bias$": as_named("{layer}.ffn_down_exps.bias"),
    r"experts\.gate_up_proj$": turned_gate_and_up(
        "{layer}.ffn_gate_exps.weight", "{layer}.ffn_up_exps.weight", interleaved=True
    ),
    r"experts\.down_proj$": as_named("{layer}.ffn_down_exps.weight", turned),
    # Of MXFP4, whose rows are in order.
    r"experts\.gate_up_proj\.weight$": gate_and_up(
        "{layer}.ffn_gate_exps.weight", "{layer}.ffn_up_exps.weight", interleaved=True
    ),
    r"experts\.down_proj\.weight$": as_named("{layer}.ffn_down_exps.weight"),
}
_GRANITE_MOE = {
    **PAIRS,
    r"block_sparse_moe\.input_linear\.weight$": gate_and_up(
        "{layer}.ffn_gate_exps.weight", "{layer}.ffn_up_exps.weight"
    ),
    r"shared_mlp\.input_linear\.weight$": gate_and_up(
        "{layer}.ffn_gate_shexp.weight", "{layer}.ffn_up_shexp.weight"
    ),
}
_DEEPSEEK = {r"kv_b_proj\.weight$": latent_keys_and_values, **_EXPERTS, **_NAMED}

ROWS: Mapping[str, Family] = {
    "DeepseekV2ForCausalLM": Family("deepseek2", _deepseek2, _DEEPSEEK),
    "DeepseekV3ForCausalLM": Family("deepseek2", _deepseek3, _DEEPSEEK),
    "Dots1ForCausalLM": Family("dots1", _sigmoid, {**_EXPERTS, **_NAMED}),
    "Ernie4_5_MoeForCausalLM": Family("ernie4_5-moe", _ernie, {**_EXPERTS, **_NAMED}),
    "Glm4MoeForCausalLM": Family("glm4moe", _glm4moe, {**_EXPERTS, **_NAMED}),
    "GptOssForCausalLM": Family("gpt-oss", _gpt_oss, _GPT_OSS),
    "GraniteMoeForCausalLM": Family("granitemoe", _granitemoe, _GRANITE_MOE),
    "GraniteMoeSharedForCausalLM": Family("granitemoe", _granitemoe, _GRANITE_MOE),
    "MixtralForCausalLM": Family("llama", _mixtral, {**PAIRS, **_EXPERTS}),
    "OlmoeForCausalLM": Family("olmoe", moves=_EXPERTS),
    "Qwen2MoeForCausalLM": Family("qwen2moe", _qwen2moe, _EXPERTS),
    "Qwen3MoeForCausalLM": Family("qwen3moe", _qwen2moe, _EXPERTS),
    "MiniMaxM2ForCausalLM": Family("minimax-m2", _sigmoid, {**_EXPERTS, **_NAMED}),
}
