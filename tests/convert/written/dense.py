"""Tiny models without experts whose code is published beside their weights. Holds no tests.

Facts from each model's config.json and modelling code on huggingface.co.
"""

from collections.abc import Mapping

from tests.convert.written.parts import (
    ATTENTION,
    BASE,
    DIM,
    EVERY,
    FF,
    GPT,
    HEADS,
    HIDDEN,
    KV,
    KV_HEADS,
    KV_RANK,
    LAYERS,
    LLAMA,
    MLA,
    NOPE,
    NORMS,
    QK_NORMS,
    ROPE,
    VALUE,
    VOCAB,
    Model,
    Q,
    Shapes,
    gated,
    layers,
    linear,
    norm,
)

_GPT_EVERY: Shapes = {
    "transformer.wte.weight": (VOCAB, HIDDEN),
    **norm("transformer.ln_f"),
    "lm_head.weight": (VOCAB, HIDDEN),
}


ROWS: Mapping[str, Model] = {
    "CodeShellForCausalLM": (
        {**GPT, "n_inner": None, "num_query_groups": KV_HEADS, "position_embedding_type": "rope",
         "group_query_attention": True, "activation_function": "gelu_pytorch_tanh"},
        _GPT_EVERY
        | layers(
            norm("ln_1")
            | norm("ln_2")
            | linear("attn.c_attn", Q + 2 * KV)
            | linear("attn.c_proj", HIDDEN, Q)
            | linear("mlp.c_fc", 4 * HIDDEN)
            | linear("mlp.c_proj", HIDDEN, 4 * HIDDEN),
            "transformer.h",
        ),
    ),
    "CogVLMForCausalLM": (
        {**BASE, "vision_config": {"hidden_size": 4, "num_hidden_layers": 1}},
        EVERY
        | {"model.vision.boi": (1, 1, HIDDEN)}
        | layers(
            {
                **NORMS,
                **{
                    f"self_attn.{kind}_expert_{name}.weight": shape
                    for kind in ("vision", "language")
                    for name, shape in (
                        ("query_key_value", (Q + 2 * KV, HIDDEN)),
                        ("dense", (HIDDEN, Q)),
                    )
                },
                **gated("mlp.language_mlp"),
                **gated("mlp.vision_mlp"),
            }
        ),
    ),
    "DeciLMForCausalLM": (
        {
            **BASE,
            "num_key_value_heads": None,
            "intermediate_size": None,
            "num_hidden_layers": 3,
            "block_configs": [
                {
                    "attention": {"n_heads_in_group": 2, "no_op": False,
                                  "replace_with_linear": False},
                    "ffn": {"ffn_mult": 1.5, "no_op": False, "replace_with_linear": False},
                },
                {
                    "attention": {"n_heads_in_group": None, "no_op": False,
                                  "replace_with_linear": True},
                    "ffn": {"ffn_mult": 3.0, "no_op": False, "replace_with_linear": False},
                },
                {
                    "attention": {"n_heads_in_group": None, "no_op": True,
                                  "replace_with_linear": False},
                    "ffn": {"ffn_mult": 1.0, "no_op": False, "replace_with_linear": False},
                },
            ],
        },
        EVERY
        | layers(ATTENTION | NORMS | gated("mlp", 256), which=range(1))
        | layers(
            NORMS | {"self_attn.linear_attn.weight": (HIDDEN, HIDDEN)} | gated("mlp", 256),
            which=range(1, 2),
        )
        | layers(
            {"post_attention_layernorm.weight": (HIDDEN,), **gated("mlp", 256)}, which=range(2, 3)
        ),
    ),
    "JAISLMHeadModel": (
        {
            **GPT,
            "activation_function": "swiglu",
            "position_embedding_type": "alibi",
            "mup_embeddings_scale": 14.6,
            "mup_output_alpha": 2.22,
            "mup_width_scale": 0.11,
            "scale_attn_weights": True,
            "mup_scale_qk_dot_by_d": True,
        },
        {n: s for n, s in _GPT_EVERY.items() if not n.startswith("lm_head")}
        | {"lm_head.weight": (VOCAB, HIDDEN), "transformer.relative_pe.slopes": (HEADS, 1)}
        | layers(
            norm("ln_1")
            | norm("ln_2")
            | {"attn.c_attn.weight": (HIDDEN, 3 * Q), "attn.c_attn.bias": (3 * Q,)}
            | {"attn.c_proj.weight": (Q, HIDDEN), "attn.c_proj.bias": (HIDDEN,)}
            | {"mlp.c_fc.weight": (HIDDEN, FF), "mlp.c_fc.bias": (FF,)}
            | {"mlp.c_fc2.weight": (HIDDEN, FF), "mlp.c_fc2.bias": (FF,)}
            | {"mlp.c_proj.weight": (FF, HIDDEN), "mlp.c_proj.bias": (HIDDEN,)},
            "transformer.h",
        ),
    ),
    "MaincoderForCausalLM": (
        {**BASE, "head_dim": DIM},
        EVERY | layers(ATTENTION | NORMS | QK_NORMS | gated("mlp")),
    ),
    "NanbeigeForCausalLM": (
        {**BASE, "num_loops": 2, "skip_loop_final_norm": True},
        LLAMA,
    ),
    "OpenELMForCausalLM": (
        {
            "model_dim": HIDDEN,
            "num_transformer_layers": LAYERS,
            "num_query_heads": [2, 4],
            "num_kv_heads": [1, 2],
            "head_dim": DIM,
            "ffn_multipliers": [0.5, 1.5],
            "ffn_dim_divisor": 16,
            "max_context_length": 64,
            "rope_freq_constant": 10000,
            "vocab_size": VOCAB,
            "share_input_output_layers": True,
            "normalize_qk_projections": True,
            "activation_fn_name": "swish",
            "ffn_with_glu": True,
        },
        {
            "transformer.token_embeddings.weight": (VOCAB, HIDDEN),
            "transformer.norm.weight": (HIDDEN,),
        }
        | {
            f"transformer.layers.{i}.{name}": shape
            for i, (heads, kv, width) in enumerate(((2, 1, 16), (4, 2, 48)))
            for name, shape in {
                "attn_norm.weight": (HIDDEN,),
                "ffn_norm.weight": (HIDDEN,),
                "attn.qkv_proj.weight": ((heads + 2 * kv) * DIM, HIDDEN),
                "attn.q_norm.weight": (DIM,),
                "attn.k_norm.weight": (DIM,),
                "attn.out_proj.weight": (HIDDEN, heads * DIM),
                "ffn.proj_1.weight": (2 * width, HIDDEN),
                "ffn.proj_2.weight": (HIDDEN, width),
            }.items()
        },
    ),
    "PLMForCausalLM": (
        {**BASE, **MLA, "q_lora_rank": None, "hidden_act": "relu2",
         "num_key_value_heads": HEADS, "tie_word_embeddings": True},
        {n: s for n, s in EVERY.items() if not n.startswith("lm_head")}
        | layers(
            NORMS
            | {
                "self_attn.q_proj.weight": (HEADS * (NOPE + ROPE), HIDDEN),
                "self_attn.kv_a_proj_with_mqa.weight": (KV_RANK + ROPE, HIDDEN),
                "self_attn.kv_a_layernorm.weight": (KV_RANK,),
                "self_attn.kv_b_proj.weight": (HEADS * (NOPE + VALUE), KV_RANK),
                "self_attn.o_proj.weight": (HIDDEN, HEADS * VALUE),
                "mlp.up_proj.weight": (FF, HIDDEN),
                "mlp.down_proj.weight": (HIDDEN, FF),
            }
        ),
    ),
    "GPTRefactForCausalLM": (
        {**GPT, "n_inner": None, "multi_query": True, "attention_bias_in_fp32": True},
        {"transformer.wte.weight": (VOCAB, HIDDEN), "transformer.ln_f.weight": (HIDDEN,),
         "lm_head.weight": (VOCAB, HIDDEN)}
        | layers(
            {
                "ln_1.weight": (HIDDEN,),
                "ln_2.weight": (HIDDEN,),
                "attn.q.weight": (Q, HIDDEN),
                "attn.kv.weight": (2 * DIM, HIDDEN),
                "attn.c_proj.weight": (HIDDEN, Q),
                "mlp.gate_up_proj.weight": (512, HIDDEN),
                "mlp.c_proj.weight": (HIDDEN, 256),
            },
            "transformer.h",
        ),
    ),
    "Spark2_5ForCausalLM": (
        {
            **BASE,
            "hidden_act": "gelu",
            "head_dim": DIM,
            "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention"],
            "gate_attn_act_mode": "sigmoid",
            "headwise_attn_output_gate": True,
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 10000.0,
                                   "partial_rotary_factor": 0.5},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0,
                                      "partial_rotary_factor": 1.0},
            },
        },
        EVERY
        | layers(
            NORMS
            | {
                "self_attn.q_k_v_proj.weight": (Q + 2 * KV, HIDDEN),
                "self_attn.g_proj.weight": (HEADS, HIDDEN),
                "self_attn.o_proj.weight": (HIDDEN, Q),
            }
            | gated("mlp")
        ),
    ),
    "TalkieForCausalLM": (
        {
            **{k: v for k, v in BASE.items() if k not in ("rms_norm_eps", "hidden_act")},
            "num_key_value_heads": HEADS,
            "head_dim": DIM,
        },
        {
            "model.embed.weight": (VOCAB, HIDDEN),
            "lm_head": (VOCAB, HIDDEN),
            "lm_head_gain.w_g": (1,),
        }
        | layers(
            {
                "attn_gain.a_g": (1,),
                "mlp_gain.a_g": (1,),
                "embed_skip.a_g": (1,),
                "attn.head_gain.head_g": (HEADS,),
                **{
                    f"attn.attn_{n}.weight": (HIDDEN, HIDDEN)
                    for n in ("query", "key", "value", "resid")
                },
                **gated("mlp", FF, "mlp_gate mlp_linear mlp_resid"),
            },
            "model.blocks",
        ),
    ),
}  # fmt: skip
