"""Decoders whose keys and values are made of latents. Source: DeepSeek-AI 2024 (DeepSeek-V2)."""

from collections.abc import Mapping

from edgellm.convert.families.dense import scales
from edgellm.convert.families.experts import NAMED, SIGMOID, SOFTMAX, groups
from edgellm.convert.families.family import EXPERTS, Family
from edgellm.convert.keys import Keys, common, rotary
from edgellm.convert.moves import latent_keys_and_values
from edgellm.convert.settings import Settings


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
    return keys


def _deepseek2(s: Settings) -> Keys:
    keys = latent(s)
    if not s.flag("rope_interleave", True):
        raise s.wrong("rope_interleave", False, "true: other orders of rotation are not known")
    return keys | groups(s) | {"expert_gating_func": SOFTMAX}


def _deepseek3(s: Settings) -> Keys:
    return _deepseek2(s) | {"expert_gating_func": SIGMOID}


def _mistral4(s: Settings) -> Keys:
    keys = latent(s) | {"expert_gating_func": SOFTMAX}
    growth = s.rope.optional_number("llama_4_scaling_beta")
    return keys | ({} if growth is None else {"attention.temperature_scale": growth})


def _minicpm3(s: Settings) -> Keys:
    """Keys and values are made of latents, and have as many heads as queries."""
    plain, position = s.integer("qk_nope_head_dim"), s.integer("qk_rope_head_dim")
    return (
        common(s)
        | rotary(s, position)
        | {
            "attention.head_count_kv": s.kv_heads,
            "attention.kv_lora_rank": s.integer("kv_lora_rank"),
            "attention.q_lora_rank": s.integer("q_lora_rank"),
            "attention.key_length": plain + position,
            "attention.value_length": s.integer("v_head_dim"),
        }
        | scales(s)
    )


_DEEPSEEK = {r"kv_b_proj\.weight$": latent_keys_and_values, **EXPERTS, **NAMED}

ROWS: Mapping[str, Family] = {
    "DeepseekV2ForCausalLM": Family("deepseek2", _deepseek2, _DEEPSEEK),
    "DeepseekV3ForCausalLM": Family("deepseek2", _deepseek3, _DEEPSEEK),
    "Glm4MoeLiteForCausalLM": Family("deepseek2", _deepseek3, _DEEPSEEK),
    "MiniCPM3ForCausalLM": Family("minicpm3", _minicpm3),
    "Mistral4ForCausalLM": Family("mistral4", _mistral4, _DEEPSEEK),
}
