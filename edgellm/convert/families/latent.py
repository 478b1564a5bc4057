"""Decoders whose keys and values are made of latents. Source: DeepSeek-AI 2024 (DeepSeek-V2)."""

from collections.abc import Iterator, Mapping

import numpy as np

from edgellm.convert.families.dense import scales
from edgellm.convert.families.experts import NAMED, SIGMOID, SOFTMAX, groups
from edgellm.convert.families.family import EXPERTS, Family
from edgellm.convert.keys import Keys, common, log_multiplied, rotary
from edgellm.convert.moves import (
    Named,
    as_column,
    as_named,
    decays,
    latent_keys_and_values,
    then,
)
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Weight, mapped


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
    return _sharpened(s, keys)


def _sharpened(s: Settings, keys: Keys) -> Keys:
    """With what sharpens scores in long contexts."""
    multiplier = s.rope.optional_number("mscale_all_dim")
    if multiplier and s.rope_kind == "yarn":
        return log_multiplied(s, keys, 0.1 * multiplier)
    return keys


def _check_order(s: Settings) -> None:
    if not s.flag("rope_interleave", True):
        raise s.wrong("rope_interleave", False, "true: other orders of rotation are not known")


def _deepseek2(s: Settings) -> Keys:
    keys = latent(s)
    _check_order(s)
    grouped = {} if s.text("topk_method") == "greedy" else groups(s)
    return keys | grouped | {"expert_gating_func": SOFTMAX}


def _deepseek3(s: Settings) -> Keys:
    return _deepseek2(s) | groups(s) | {"expert_gating_func": SIGMOID}


def _without_experts(s: Settings) -> Keys:
    """All layers lead those with experts, of which there are none."""
    _check_order(s)
    return latent(s) | {"leading_dense_block_count": s.layers}


def _indexed(s: Settings) -> Keys:
    """An indexer picks the tokens that attention sees. Source: DeepSeek-AI 2025 (DeepSeek-V3.2)."""
    return _deepseek3(s) | {
        "attention.indexer.head_count": s.integer("index_n_heads"),
        "attention.indexer.key_length": s.integer("index_head_dim"),
        "attention.indexer.top_k": s.integer("index_topk"),
    }


def _kimi_linear(s: Settings) -> Keys:
    """Layers have attention over latents, or a state: those have no heads of keys."""
    linear = s.group("linear_attn_config")
    full = linear.integers("full_attn_layers")  # counted from 1
    kinds = s.items("layer_types")
    attends = [kind == "full_attention" for kind in kinds] or [
        i + 1 in full for i in range(s.layers)
    ]
    head_dim = linear.optional_integer("head_dim") or s.integer("linear_head_dim")
    kernel = linear.optional_integer("short_conv_kernel_size")
    if (s.optional_integer("num_expert_group", "n_group") or 1) != 1:
        raise s.wrong("num_expert_group", s.value("num_expert_group", "n_group"), "1")
    return latent(s) | {
        "attention.head_count_kv": np.array(attends, np.uint32),
        "ssm.conv_kernel": kernel or s.integer("linear_conv_kernel_dim"),
        "kda.head_dim": head_dim,
        "expert_gating_func": SIGMOID,
        "expert_weights_norm": s.flag("moe_renormalize", True),
    }


def _mistral4(s: Settings) -> Keys:
    _check_order(s)
    keys = latent(s) | groups(s) | {"expert_gating_func": SOFTMAX}
    growth = s.rope.optional_number("llama_4_scaling_beta")
    return keys | ({} if growth is None else {"attention.temperature_scale": growth})


def _minicpm3(s: Settings) -> Keys:
    """Keys and values are made of latents, and have as many heads as queries."""
    plain, position = s.integer("qk_nope_head_dim"), s.integer("qk_rope_head_dim")
    return _sharpened(
        s,
        common(s)
        | rotary(s, position)
        | {
            "attention.head_count_kv": s.kv_heads,
            "attention.kv_lora_rank": s.integer("kv_lora_rank"),
            "attention.q_lora_rank": s.integer("q_lora_rank"),
            "attention.key_length": plain + position,
            "attention.value_length": s.integer("v_head_dim"),
        }
        | scales(s),
    )


def _limits(s: Settings, name: str) -> Keys:
    """Of each layer, 0 where there is none."""
    given = [float(limit or 0) for limit in s.items(name)[: s.layers]]
    key = "swiglu_clamp_shexp" if name.startswith("share") else "swiglu_clamp_exp"
    padded = given + [0.0] * (s.layers - len(given))
    return {key: np.array(padded, np.float32)} if given else {}


def _bailing3(s: Settings) -> Keys:
    """The last layer of each group attends to latents, and those behind the last group."""
    for name, expected in (("no_kda_lora", True), ("kda_safe_gate", True)):
        if s.value(name) is not expected:
            raise s.wrong(name, s.value(name), str(expected).lower())
    granularity = s.text("gated_attention_proj_granularity_type")
    if granularity != "head_wise":
        raise s.wrong("gated_attention_proj_granularity_type", granularity, "head_wise")
    size, count = s.integer("layer_group_size"), s.layers
    whole = count // size * size
    attends = [(i + 1) % size == 0 or i >= whole for i in range(count)]
    return (
        latent(s)
        | {
            "attention.head_count_kv": np.array(attends, np.uint32),
            "ssm.conv_kernel": s.integer("short_conv_kernel_size"),
            "kda.head_dim": s.integer("head_dim"),
            "kda.safe_gate": True,
            "kda.gate_lower_bound": s.number("kda_lower_bound", -5.0),
            "expert_shared_feed_forward_length": s.integer("moe_shared_expert_intermediate_size"),
            "expert_gating_func": SIGMOID,
        }
        | _limits(s, "expert_swiglu_limit_list")
        | _limits(s, "share_expert_swiglu_limit_list")
    )


def _exponentials(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Decays that are stored as logarithms, and bounded in the graph."""
    yield name, mapped(weight, np.exp)


def _gates(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """One for each head where a layer attends to latents."""
    kind = "attn_gate" if weight.rows == s.heads else "ssm_g_a"
    yield from as_named(f"{{layer}}.{kind}.weight")(name, weight, s)


_DEEPSEEK = {r"kv_b_proj\.weight$": latent_keys_and_values, **EXPERTS, **NAMED}
_KIMI = {
    r"\.A_log$": as_named("{layer}.ssm_a", then(decays, as_column)),
    r"\.dt_bias$": as_named("{layer}.ssm_dt.bias"),
    **_DEEPSEEK,
}
_BAILING3 = {
    r"\.A_log$": as_named("{layer}.ssm_a", then(_exponentials, as_column)),
    r"\.dt_bias$": as_named("{layer}.ssm_dt.bias"),
    r"self_attn\.f_proj\.weight$": as_named("{layer}.ssm_f_a.weight"),
    r"self_attn\.g_proj\.weight$": _gates,
    r"kv_b_proj\.weight$": latent_keys_and_values,
    r"expert_bias$": as_named("{layer}.exp_probs_b.bias"),
    **EXPERTS,
}

ROWS: Mapping[str, Family] = {
    "DeepseekV2ForCausalLM": Family("deepseek2", _deepseek2, _DEEPSEEK),
    "DeepseekV3ForCausalLM": Family("deepseek2", _deepseek3, _DEEPSEEK),
    "DeepseekV32ForCausalLM": Family("deepseek32", _indexed, _DEEPSEEK, names_of=("glm-dsa",)),
    "GlmMoeDsaForCausalLM": Family("glm-dsa", _indexed, _DEEPSEEK),
    "YoutuForCausalLM": Family("deepseek2", _without_experts, _DEEPSEEK),
    "Glm4MoeLiteForCausalLM": Family("deepseek2", _deepseek3, _DEEPSEEK),
    "MiniCPM3ForCausalLM": Family("minicpm3", _minicpm3),
    "KimiLinearForCausalLM": Family(
        "kimi-linear",
        _kimi_linear,
        _KIMI,
        {r"block_sparse_moe\.(gate|up|down)_proj": r"mlp.\1_proj"},
    ),
    "Mistral4ForCausalLM": Family("mistral4", _mistral4, _DEEPSEEK),
    "BailingMoeV3ForCausalLM": Family(
        "bailingmoe3",
        _bailing3,
        _BAILING3,
        {
            r"\.attention\.dense\.": ".self_attn.o_proj.",
            r"\.attention\.": ".self_attn.",
            r"\.word_embeddings\.": ".embed_tokens.",
        },
        names_of=("kimi-linear", "deepseek2"),
    ),
}
