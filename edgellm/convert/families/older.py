"""Decoders of the kind of GPT: layer norms with biases, feed-forward blocks without gates."""

from collections.abc import Iterable, Mapping
from typing import Any

from edgellm.convert.families.dense import clamp, windowed
from edgellm.convert.families.family import TIED, Family
from edgellm.convert.keys import Keys, common, decoder
from edgellm.convert.moves import Named, by_group, by_head, turned, unchanged
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Weight


def _wide(s: Settings) -> Keys:
    """Feed-forward blocks are four times as wide unless a setting says otherwise."""
    return {"feed_forward_length": 4 * s.hidden_size} | common(s)


def _bloom(s: Settings) -> Keys:
    width = s.optional_integer("n_inner") or 4 * s.hidden_size
    return _wide(s) | {"feed_forward_length": width, "attention.head_count_kv": s.heads}


def _falcon(s: Settings) -> Keys:
    """As a decoder; blocks are four times as wide unless a setting says otherwise."""
    if s.flag("alibi"):
        raise s.wrong("alibi", True, "false: models with biases by distance are not known")
    return decoder(s) | {
        "feed_forward_length": s.optional_integer("ffn_hidden_size") or 4 * s.hidden_size,
        "attention.head_count_kv": s.kv_heads,
    }


def _one_head_of_keys(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Falcon's number of them counts in the newer architecture alone."""
    if config.get("new_decoder_architecture"):
        return {}
    heads = config.get("num_attention_heads", config.get("n_head"))
    return {"num_kv_heads": 1 if config.get("multi_query", True) else heads}


def _starcoder(s: Settings) -> Keys:
    """One head of keys for all, or as many as of queries."""
    return _wide(s) | {"attention.head_count_kv": 1 if s.flag("multi_query", True) else s.heads}


def _fused_starcoder(name: str, weight: Weight, s: Settings) -> Iterable[Named]:
    return (unchanged if s.flag("multi_query", True) else by_head)(name, weight, s)


def _mpt(s: Settings) -> Keys:
    attention = s.group("attn_config")
    keys = common(s) | {
        "feed_forward_length": int(s.number("expansion_ratio", 4) * s.hidden_size),
        "attention.head_count_kv": attention.optional_integer("kv_n_heads") or s.heads,
        "attention.layer_norm_epsilon": s.number("layer_norm_epsilon", 1e-5),
        "attention.max_alibi_bias": 0.0,
    }
    if attention.flag("alibi", True):
        keys["attention.max_alibi_bias"] = attention.number("alibi_bias_max", 8)
    return keys | clamp(attention)


def _gptneox(s: Settings) -> Keys:
    return decoder(s) | {"use_parallel_residual": s.flag("use_parallel_residual", True)}


def _stablelm(s: Settings) -> Keys:
    return decoder(s) | {"use_parallel_residual": s.flag("use_parallel_residual", False)}


MASKS = (r"\.attn\.(masked_)?bias$", r"\.attention\.(masked_)?bias$", r"\.rotary_emb\.")

ROWS: Mapping[str, Family] = {
    "BloomForCausalLM": Family(
        "bloom",
        _bloom,
        {r"query_key_value": by_head},
        renames={r"^transformer\.": ""},
        defaults={**TIED, "seq_length": 2048},
    ),
    "FalconForCausalLM": Family(
        "falcon",
        _falcon,
        {r"query_key_value": by_group},
        defaults={**TIED, "max_position_embeddings": 2048},
        implied=_one_head_of_keys,
    ),
    "GPT2LMHeadModel": Family(
        "gpt2",
        _wide,
        {r"\.c_(attn|proj|fc)\.weight$": turned},
        renames={r"^(?!transformer\.|lm_head)": "transformer."},
        left=MASKS,
        defaults=TIED,
    ),
    "GPTBigCodeForCausalLM": Family(
        "starcoder", _starcoder, {r"\.c_attn\.": _fused_starcoder}, left=MASKS, defaults=TIED
    ),
    "GPTNeoXForCausalLM": Family("gptneox", _gptneox, {r"query_key_value": by_head}, left=MASKS),
    "MptForCausalLM": Family("mpt", _mpt, defaults=TIED),
    "PhiForCausalLM": Family("phi2"),
    "StableLmForCausalLM": Family("stablelm", _stablelm),
    "Starcoder2ForCausalLM": Family("starcoder2", windowed, defaults=TIED),
}
