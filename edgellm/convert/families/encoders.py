"""Models that turn a text into numbers. Sentences' models say how in files beside the tensors."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from edgellm.convert.families.family import Family, own_activation
from edgellm.convert.keys import CONTEXT, Keys, check_alibi, common, decoder, rotary
from edgellm.convert.moves import Named, as_named, from_row, gate_and_up, layer_of
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Weight, reshaped, transposed
from edgellm.types import POOLINGS

_PREFIX = {r"^(bert|roberta|distilbert|model)\.": "", r"\.gamma$": ".weight", r"\.beta$": ".bias"}
_HEADS = (
    *(r"position_ids$", r"^(bert\.|roberta\.)?pooler\.", r"^cls\.", r"^lm_head\.", r"^vocab_"),
    *(r"^head\.", r"^decoder\."),
)


def _bert(s: Settings) -> Keys:
    return common(s) | {
        "attention.causal": False,
        "attention.layer_norm_epsilon": s.number("layer_norm_eps", 1e-12),
        "tokenizer.ggml.token_type_count": s.optional_integer("type_vocab_size") or 1,
    }


def _ranking(keys: Callable[[Settings], Keys]) -> Callable[[Settings], Keys]:
    """Of a model whose head gives scores."""
    return lambda s: keys(s) | {"pooling_type": POOLINGS.index("rank")}


def _roberta(s: Settings) -> Keys:
    """Positions are counted from behind the one of padding."""
    keys = _bert(s)
    return keys | {"context_length": s.integer(*CONTEXT) - _first_position(s)}


def _first_position(s: Settings) -> int:
    padding = s.optional_integer("pad_token_id")
    return 0 if padding is None else padding + 1


def _positions(name: str, weight: Weight, s: Settings) -> list[Named]:
    return list(from_row(_first_position(s))(name, weight, s))


def _distilbert(s: Settings) -> Keys:
    return _bert(s) | {"feed_forward_length": s.integer("hidden_dim")}


def _modernbert(s: Settings) -> Keys:
    keys = decoder(s) | {
        "attention.causal": False,
        "attention.layer_norm_epsilon": s.number("norm_eps", 1e-5),
        "attention.sliding_window": s.integer("local_attention"),
        "attention.sliding_window_pattern": s.optional_integer("global_attn_every_n_layers") or 3,
    }
    keys.pop("attention.layer_norm_rms_epsilon", None)
    kinds = [kind == "sliding_attention" for kind in s.items("layer_types")]
    period = s.optional_integer("global_attn_every_n_layers") or 3
    if kinds and kinds != [i % period != 0 for i in range(s.layers)]:
        keys["attention.sliding_window_pattern"] = np.array(kinds, np.bool_)
    rope = s.group("rope_parameters")
    whole = rope.group("full_attention").optional_number("rope_theta")
    local = rope.group("sliding_attention").optional_number("rope_theta")
    keys["rope.freq_base"] = whole or s.number("global_rope_theta", 160000.0)
    keys["rope.freq_base_swa"] = local or s.number("local_rope_theta", 10000.0)
    return keys


def _modernbert_ranking(s: Settings) -> Keys:
    if s.text("classifier_pooling") != "mean":
        raise s.wrong("classifier_pooling", s.text("classifier_pooling"), "mean")
    return _ranking(_modernbert)(s)


def _nomic_name(s: Settings) -> str:
    return "nomic-bert-moe" if s.optional_integer("moe_every_n_layers") else "nomic-bert"


def _nomic(s: Settings) -> Keys:
    """Source: Nussbaum et al. 2024; with experts Nussbaum and Duderstadt 2025."""
    base = s.rope.optional_number("rope_theta") or s.number("rotary_emb_base", 1000.0)
    keys = decoder(s) | {"attention.causal": False, "rope.freq_base": base}
    if s.optional_integer("moe_every_n_layers"):
        keys["moe_every_n_layers"] = s.integer("moe_every_n_layers")
        keys["expert_used_count"] = s.integer("moe_top_k")
    return keys


def _nomic_experts(name: str, weight: Weight, s: Settings) -> list[Named]:
    """All in one matrix; what gives out is stored by columns."""
    count = s.integer("num_experts", "num_local_experts")
    if weight.rows % count:
        raise weight.wrong(f"expected {count} experts")
    each = reshaped(weight, (count, weight.rows // count, weight.columns))
    is_down = name.endswith("w2")
    part = "down" if is_down else "up"
    return [(f"{layer_of(name)}.ffn_{part}_exps.weight", transposed(each) if is_down else each)]


def _jina2(s: Settings) -> Keys:
    """Biases by distance, a gated block. Source: Guenther et al. 2023."""
    check_alibi(s)
    return _bert(s)


# Of the model for code, whose gates lie behind what they multiply.
_JINA2_CODE = {
    r"mlp\.up_gated_layer\.weight$": gate_and_up("{layer}.ffn_up.weight", "{layer}.ffn_gate.weight")
}


def _jina5_name(s: Settings) -> str:
    """Small models are made of Qwen 3, smaller ones of EuroBERT, and no setting names it."""
    return "qwen3" if s.has("use_sliding_window") else "eurobert"


def _jina5(s: Settings) -> Keys:
    return decoder(s) if _jina5_name(s) == "qwen3" else _eurobert(s)


def _neobert(s: Settings) -> Keys:
    """Source: Le Breton et al. 2025."""
    return decoder(s) | {
        "attention.causal": False,
        "feed_forward_length": int(2 * s.integer("intermediate_size") / 3),
        "attention.layer_norm_rms_epsilon": s.number("norm_eps", 1e-6),
        "rope.freq_base": 10000.0,
        "pooling_type": POOLINGS.index("cls"),
    }


def _t5(s: Settings) -> Keys:
    """Biases by distance, in buckets. Source: Raffel et al. 2020."""
    dim, buckets = s.integer("d_kv"), s.optional_integer("relative_attention_num_buckets") or 32
    furthest = s.optional_integer("relative_attention_max_distance") or 128
    if furthest != 128:
        raise s.wrong("relative_attention_max_distance", furthest, "128: it has no key")
    return common(s) | {
        "context_length": s.optional_integer("n_positions") or 512,
        "feed_forward_length": s.integer("d_ff"),
        "attention.key_length": dim,
        "attention.value_length": dim,
        "attention.layer_norm_epsilon": s.number("layer_norm_epsilon", 1e-6),
        "attention.layer_norm_rms_epsilon": s.number("layer_norm_epsilon", 1e-6),
        "attention.relative_buckets_count": buckets,
    }


def _t5_settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """A gated block has its kind in a name of its own."""
    kind = str(config.get("feed_forward_proj", "relu"))
    known = {"relu": "relu", "gated-gelu": "gelu_new"}
    return {
        "n_positions": config.get("n_positions") or 512,
        "hidden_act": None if kind in known else f"feed_forward_proj {kind}",
        "dense_act_fn": None,
    }


def _jina3(s: Settings) -> Keys:
    return _bert(s) | rotary(s)


def _eurobert(s: Settings) -> Keys:
    return decoder(s) | {"attention.causal": False}


# Heads that give scores, under GGUF's names.
_HEAD = {
    **{rf"^(pooler|head)\.dense\.{part}$": as_named(f"cls.{part}") for part in ("weight", "bias")},
    **{rf"^head\.norm\.{part}$": as_named(f"cls.norm.{part}") for part in ("weight", "bias")},
    **{rf"^classifier\.{part}$": as_named(f"cls.output.{part}") for part in ("weight", "bias")},
}
_POSITIONS = {r"embeddings\.position_embeddings\.weight$": _positions}
_bert_row = Family("bert", _bert, renames=_PREFIX, left=_HEADS)
_roberta_row = Family(
    "bert",
    _roberta,
    _POSITIONS,
    renames=_PREFIX,
    left=_HEADS,
)
_roberta_ranking = Family("bert", _ranking(_roberta), _POSITIONS, _PREFIX, _HEADS)
_modern_row = Family("modern-bert", _modernbert, renames=_PREFIX, left=_HEADS)
_jina2_row = Family("jina-bert-v2", _jina2, _JINA2_CODE, _PREFIX, _HEADS)
_neobert_row = Family(
    "neo-bert",
    _neobert,
    renames={r"^model\.": ""},
    left=(r"^decoder\.", r"^(model\.)?freqs_cis$"),
    implied=own_activation,
)
_t5_row = Family(
    "t5encoder",
    _t5,
    left=(r"^decoder\.", r"^lm_head\.", r"^encoder\.embed_tokens\."),
    implied=_t5_settings,
)
_t5_encoder_row = replace(
    _t5_row, note="the encoder alone: decoders that read what it makes of a text are not run"
)

ROWS: Mapping[str, Family] = {
    "BertModel": _bert_row,
    "BertForSequenceClassification": Family(
        "bert", _ranking(_bert), _HEAD, _PREFIX, (r"position_ids$",)
    ),
    "ModernBertForSequenceClassification": Family(
        "modern-bert", _modernbert_ranking, _HEAD, _PREFIX
    ),
    "RobertaForSequenceClassification": _roberta_ranking,
    "XLMRobertaForSequenceClassification": _roberta_ranking,
    "BertForMaskedLM": _bert_row,
    "DistilBertModel": Family("bert", _distilbert, renames=_PREFIX, left=_HEADS),
    "EuroBertModel": Family("eurobert", _eurobert, renames=_PREFIX, left=_HEADS),
    "JinaEmbeddingsV5Model": Family(
        _jina5_name,
        _jina5,
        renames=_PREFIX,
        left=_HEADS,
        implied=lambda config: {"tie_word_embeddings": True},
        note="the model alone: what a folder of adapters has for its tasks is not in the file",
    ),
    "JinaEmbeddingsV3Model": Family("jina-bert-v3", _jina3, renames=_PREFIX, left=_HEADS),
    "ModernBertModel": _modern_row,
    "ModernBertForMaskedLM": _modern_row,
    "NomicBertModel": Family(
        _nomic_name,
        _nomic,
        {r"mlp\.experts\.mlp\.w[12]$": _nomic_experts},
        _PREFIX,
        (*_HEADS, r"mlp\.experts\.bias$"),
        defaults={"num_experts": None},
    ),
    "JinaBertModel": _jina2_row,
    "JinaBertForMaskedLM": _jina2_row,
    "NeoBERT": _neobert_row,
    "NeoBERTLMHead": _neobert_row,
    "T5EncoderModel": _t5_row,
    "MT5EncoderModel": _t5_row,
    "UMT5EncoderModel": _t5_row,
    "T5ForConditionalGeneration": _t5_encoder_row,
    "MT5ForConditionalGeneration": _t5_encoder_row,
    "UMT5ForConditionalGeneration": _t5_encoder_row,
    "RobertaModel": _roberta_row,
    "XLMRobertaModel": _roberta_row,
}
