"""Encoders."""

from typing import Any

from tests.convert.golden.settings import ALL_HEADS, BASE, FF, HEADS, HIDDEN, LAYERS, T5, VOCAB

ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "t5-encoder": ("T5EncoderModel", T5),
    "mt5-encoder": ("MT5EncoderModel", {**T5, "feed_forward_proj": "gated-gelu"}),
    "umt5-encoder": ("UMT5EncoderModel", {**T5, "feed_forward_proj": "gated-gelu"}),
    "jina3": ("JinaEmbeddingsV3Model", ALL_HEADS),
    "bert-scores": ("BertForSequenceClassification", {**ALL_HEADS, "num_labels": 3}),
    "modernbert-scores": (
        "ModernBertForSequenceClassification",
        {**ALL_HEADS, "num_hidden_layers": 4, "local_attention": 8, "cls_token_id": 1,
         "sep_token_id": 2, "global_attn_every_n_layers": 3, "num_labels": 2,
         "classifier_pooling": "mean"},
    ),
    "roberta-scores": ("RobertaForSequenceClassification", {**ALL_HEADS, "num_labels": 1}),
    "bert": ("BertModel", {**ALL_HEADS, "type_vocab_size": 2}),
    "distilbert": (
        "DistilBertModel",
        {"vocab_size": VOCAB, "dim": HIDDEN, "hidden_dim": FF, "n_layers": LAYERS,
         "n_heads": HEADS, "max_position_embeddings": 64},
    ),
    "eurobert": ("EuroBertModel", {**BASE, "mask_token_id": 3}),
    "modernbert": (
        "ModernBertModel",
        {**ALL_HEADS, "num_hidden_layers": 4, "local_attention": 8, "cls_token_id": 1,
         "sep_token_id": 2, "global_attn_every_n_layers": 3},
    ),
    "modernbert-silu": (
        "ModernBertModel",
        {**ALL_HEADS, "num_hidden_layers": 4, "local_attention": 8, "cls_token_id": 1,
         "sep_token_id": 2, "global_attn_every_n_layers": 3, "hidden_activation": "silu"},
    ),
    "nomic-bert": ("NomicBertModel", ALL_HEADS),
    "roberta": ("RobertaModel", ALL_HEADS),
}  # fmt: skip
