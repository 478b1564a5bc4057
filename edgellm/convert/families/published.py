"""Families whose code is published beside their weights, and not in `transformers`.

What a model computes is what a model of `transformers` computes with other names for the same
tensors: tests hold them to that.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from edgellm.convert.families.dense import ROWS as DENSE
from edgellm.convert.families.encoders import ROWS as ENCODERS
from edgellm.convert.families.experts import NAMED, ROWS as EXPERT_ROWS, SIGMOID, groups
from edgellm.convert.families.family import EXPERTS, PAIRS, Family
from edgellm.convert.families.older import ROWS as OLDER
from edgellm.convert.families.recurrent import ROWS as RECURRENT
from edgellm.convert.keys import Keys, decoder
from edgellm.convert.moves import Named, as_named, in_turn, layer_of
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Weight, from_array, parts


def _orion(s: Settings) -> Keys:
    """The setting for root mean squares is that of norms with means."""
    return decoder(s) | {"attention.layer_norm_epsilon": s.number("rms_norm_eps", 1e-5)}


def _deepseek(s: Settings) -> Keys:
    if s.text("scoring_func") not in (None, "softmax"):
        raise s.wrong("scoring_func", s.text("scoring_func"), "softmax")
    return decoder(s)


def _bailing(s: Settings) -> Keys:
    if s.flag("norm_head"):
        raise s.wrong("norm_head", True, "false: logits of a normed matrix have no key")
    return decoder(s)


def _bailing2(s: Settings) -> Keys:
    width = s.optional_integer("moe_shared_expert_intermediate_size")
    shared = s.optional_integer("num_shared_experts") or 0
    return (
        decoder(s)
        | groups(s)
        | {
            "expert_shared_feed_forward_length": width
            or shared * s.integer("moe_intermediate_size"),
            "expert_gating_func": SIGMOID,
        }
    )


def _centred(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Less their mean, which the model takes off when it runs."""
    values = weight.floats(np.arange(weight.rows))
    yield name, from_array(weight.origin, (values - values.mean()).reshape(weight.shape))


def _qwen(s: Settings) -> Keys:
    """The first Qwen. Its width of blocks is twice the true one, as the file's is."""
    keys = decoder(s) | {"attention.head_count_kv": s.heads}
    keys["attention.layer_norm_rms_epsilon"] = s.number("layer_norm_epsilon", 1e-6)
    keys.pop("attention.layer_norm_epsilon", None)
    return keys


def _chatglm(s: Settings) -> Keys:
    keys = decoder(s)
    keys["attention.layer_norm_rms_epsilon"] = s.number("layernorm_epsilon", 1e-5)
    keys.pop("attention.layer_norm_epsilon", None)
    keys["rope.freq_base"] = 10000.0 * s.number("rope_ratio", 1.0)
    return keys


def _chatglm_settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Half of a head is rotated; a head of keys serves a group of queries."""
    if config.get("rmsnorm") is False or config.get("apply_residual_connection_post_layernorm"):
        return {"hidden_act": "another kind of ChatGLM's blocks"}
    heads = config.get("multi_query_group_num") if config.get("multi_query_attention") else None
    return {
        "num_key_value_heads": heads or config.get("num_attention_heads"),
        "head_dim": config.get("kv_channels"),
        "partial_rotary_factor": 0.5,
    }


def _fused(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Queries, keys and values in one matrix, under names of their own."""
    kv = s.kv_heads * s.head_dim
    layer, suffix = layer_of(name), name.rsplit(".", 1)[1]
    for part, one in zip("qkv", parts(weight, [s.heads * s.head_dim, kv, kv]), strict=True):
        yield f"{layer}.attn_{part}.{suffix}", one


_llama = DENSE["LlamaForCausalLM"]
_bailing_names = {
    r"\.attention\.": ".self_attn.",
    r"self_attn\.dense\.": "self_attn.o_proj.",
    r"query_layernorm": "q_norm",
    r"key_layernorm": "k_norm",
    r"model\.word_embeddings": "model.embed_tokens",
}
_chatglm_row = Family(
    "chatglm",
    _chatglm,
    left=(r"rotary_pos_emb", r"^transformer\.vision\."),
    renames={r"^transformer\.": ""},
    implied=_chatglm_settings,
)

_bailing2_row = Family(
    "bailingmoe2",
    _bailing2,
    {
        r"query_key_value\.": _fused,
        r"expert_bias$": as_named("{layer}.exp_probs_b.bias"),
        **EXPERTS,
        **NAMED,
    },
    _bailing_names,
    defaults={"partial_rotary_factor": 0.5},
)
# The same with heads that are rotated whole.
_sarvam_row = replace(
    _bailing2_row,
    moves={
        **_bailing2_row.moves,
        r"expert_bias$": as_named("{layer}.exp_probs_b.bias", _centred),
    },
    defaults={},
)

ROWS: Mapping[str, Family] = {
    "LLaMAForCausalLM": _llama,
    "IQuestCoderForCausalLM": _llama,
    "XverseForCausalLM": Family("xverse", moves=PAIRS),
    "OrionForCausalLM": Family("orion", _orion),
    "PanguEmbeddedForCausalLM": Family("pangu-embedded"),
    "LlamaBidirectionalModel": Family(
        "llama-embed",
        lambda s: decoder(s) | {"attention.causal": False},
        PAIRS,
        renames={r"^(?!model\.)": "model."},
        names_of=("llama",),
    ),
    "DeepseekForCausalLM": Family("deepseek", _deepseek, {**PAIRS, **EXPERTS}),
    "BailingMoeForCausalLM": Family(
        "bailingmoe", _bailing, {r"query_key_value\.": in_turn, **EXPERTS}, _bailing_names
    ),
    "BailingMoeV2ForCausalLM": _bailing2_row,
    "SarvamMoEForCausalLM": _sarvam_row,
    "KORMoForCausalLM": Family("qwen2"),
    "QWenLMHeadModel": Family("qwen", _qwen, left=(r"\.attn\.(masked_)?bias$",)),
    "ChatGLMModel": _chatglm_row,
    "ChatGLMForConditionalGeneration": _chatglm_row,
    # Older names of classes.
    "BloomModel": OLDER["BloomForCausalLM"],
    "CamembertModel": ENCODERS["RobertaModel"],
    "DistilBertForMaskedLM": ENCODERS["DistilBertModel"],
    "ExaoneMoEForCausalLM": EXPERT_ROWS["ExaoneMoeForCausalLM"],
    "LFM2ForCausalLM": RECURRENT["Lfm2ForCausalLM"],
    "MPTForCausalLM": OLDER["MptForCausalLM"],
    "MambaLMHeadModel": RECURRENT["MambaForCausalLM"],
    "RWForCausalLM": OLDER["FalconForCausalLM"],
    "StableLMEpochForCausalLM": OLDER["StableLmForCausalLM"],
}
