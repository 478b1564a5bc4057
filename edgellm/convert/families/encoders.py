"""Models that turn a text into numbers. Sentences' models say how in files beside the tensors."""

from collections.abc import Callable, Mapping

import numpy as np

from edgellm.convert.families.family import Family
from edgellm.convert.keys import CONTEXT, Keys, common, decoder, rotary
from edgellm.convert.moves import Named, as_named, from_row
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Weight
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
    if (s.text("hidden_activation") or "gelu") != "gelu":
        raise s.wrong("hidden_activation", s.text("hidden_activation"), "gelu")
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


def _nomic(s: Settings) -> Keys:
    base = s.rope.optional_number("rope_theta") or s.number("rotary_emb_base", 1000.0)
    return decoder(s) | {"attention.causal": False, "rope.freq_base": base}


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
    "JinaEmbeddingsV3Model": Family("jina-bert-v3", _jina3, renames=_PREFIX, left=_HEADS),
    "ModernBertModel": _modern_row,
    "ModernBertForMaskedLM": _modern_row,
    "NomicBertModel": Family("nomic-bert", _nomic, renames=_PREFIX, left=_HEADS),
    "RobertaModel": _roberta_row,
    "XLMRobertaModel": _roberta_row,
}
