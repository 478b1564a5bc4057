"""Tiny encoders whose code is published beside their weights. Holds no tests.

Facts from each model's config.json and modelling code on huggingface.co.
"""

from collections.abc import Mapping

from tests.convert.written.parts import (
    BASE,
    EXPERTS,
    FF,
    GPT,
    HIDDEN,
    VOCAB,
    Model,
    layers,
    linear,
    norm,
)

_JINA2 = {
    **{
        name: shape
        for n in ("query", "key", "value")
        for name, shape in linear(f"attention.self.{n}", HIDDEN).items()
    },
    **linear("attention.output.dense", HIDDEN),
    **norm("attention.output.LayerNorm"),
    "mlp.gated_layers.weight": (2 * FF, HIDDEN),
    **linear("mlp.wo", HIDDEN, FF),
    **norm("mlp.layernorm"),
}
_NOMIC_ATTENTION = {
    **linear("attn.Wqkv", 3 * HIDDEN),
    **linear("attn.out_proj", HIDDEN),
    **norm("norm1"),
    **norm("norm2"),
}

ROWS: Mapping[str, Model] = {
    "JinaBertModel": (
        {**BASE, "num_key_value_heads": None, "layer_norm_eps": 1e-12, "type_vocab_size": 2,
         "position_embedding_type": "alibi", "feed_forward_type": "geglu", "hidden_act": "gelu"},
        {
            "embeddings.word_embeddings.weight": (VOCAB, HIDDEN),
            "embeddings.token_type_embeddings.weight": (2, HIDDEN),
            **norm("embeddings.LayerNorm"),
            "pooler.dense.weight": (HIDDEN, HIDDEN),
            "pooler.dense.bias": (HIDDEN,),
        }
        | layers(_JINA2, "encoder.layer"),
    ),
    "NeoBERT": (
        {
            **{k: v for k, v in BASE.items() if k not in ("rms_norm_eps", "rope_theta")},
            "num_key_value_heads": None,
            "max_position_embeddings": None,
            "max_length": 64,
            "hidden_act": None,
            "intermediate_size": 72,
            "norm_eps": 1e-5,
            "tie_word_embeddings": True,
        },
        {
            "model.encoder.weight": (VOCAB, HIDDEN),
            "model.layer_norm.weight": (HIDDEN,),
            **linear("decoder", VOCAB),
        }
        | layers(
            {
                "qkv.weight": (3 * HIDDEN, HIDDEN),
                "wo.weight": (HIDDEN, HIDDEN),
                "ffn.w12.weight": (96, HIDDEN),
                "ffn.w3.weight": (HIDDEN, 48),
                "attention_norm.weight": (HIDDEN,),
                "ffn_norm.weight": (HIDDEN,),
            },
            "model.transformer_encoder",
        ),
    ),
    "NomicBertModel": (
        {
            **GPT,
            "n_positions": 2048,
            "max_trained_positions": 2048,
            "activation_function": "gelu",
            "causal": False,
            "qkv_proj_bias": True,
            "mlp_fc1_bias": True,
            "mlp_fc2_bias": True,
            "prenorm": False,
            "rotary_emb_fraction": 1.0,
            "rotary_emb_interleaved": False,
            "rotary_emb_scale_base": None,
            "rotary_emb_base": 10000,
            "type_vocab_size": 1,
            "moe_every_n_layers": 2,
            "moe_top_k": 2,
            "num_experts": EXPERTS,
        },
        {
            "embeddings.word_embeddings.weight": (VOCAB, HIDDEN),
            "embeddings.token_type_embeddings.weight": (1, HIDDEN),
            **norm("emb_ln"),
        }
        | layers(_NOMIC_ATTENTION, "encoder.layers")
        | layers(
            linear("mlp.fc1", FF) | linear("mlp.fc2", HIDDEN, FF), "encoder.layers", range(1)
        )
        | layers(
            {
                "mlp.router.layer.weight": (EXPERTS, HIDDEN),
                "mlp.experts.mlp.w1": (EXPERTS * FF, HIDDEN),
                "mlp.experts.mlp.w2": (EXPERTS * FF, HIDDEN),
                "mlp.experts.bias": (HIDDEN,),
            },
            "encoder.layers",
            range(1, 2),
        ),
    ),
}  # fmt: skip
