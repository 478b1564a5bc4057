"""Tiny models with experts whose code is published beside their weights. Holds no tests.

Facts from each model's config.json and modelling code on huggingface.co.
"""

from collections.abc import Mapping

from tests.convert.written.parts import (
    ATTENTION,
    BASE,
    DIM,
    EVERY,
    EXPERTS,
    FF,
    HEADS,
    HIDDEN,
    KV,
    KV_RANK,
    MLA,
    MOE,
    NOPE,
    NORMS,
    QK_NORMS,
    ROPE,
    VALUE,
    VOCAB,
    Model,
    Q,
    experts,
    gated,
    layers,
)

_MOE_MLP = {"mlp.gate.weight": (EXPERTS, HIDDEN), **experts("mlp.experts")}
_MIXTRAL = {
    "block_sparse_moe.gate.weight": (EXPERTS, HIDDEN),
    **experts("block_sparse_moe.experts", "w1 w3 w2"),
}
_RANK = 8
_KDA = {
    "attention.q_proj.weight": (Q, HIDDEN),
    "attention.k_proj.weight": (Q, HIDDEN),
    "attention.v_proj.weight": (Q, HIDDEN),
    **{f"attention.{n}_conv1d.weight": (Q, 1, 4) for n in "qkv"},
    "attention.f_proj.weight": (Q, HIDDEN),
    "attention.b_proj.weight": (HEADS, HIDDEN),
    "attention.g_proj.weight": (Q, HIDDEN),
    "attention.A_log": (HEADS,),
    "attention.dt_bias": (Q,),
    "attention.o_norm.weight": (DIM,),
    "attention.o_proj.weight": (HIDDEN, Q),
}
_MLA = {
    "attention.q_a_proj.weight": (_RANK, HIDDEN),
    "attention.q_a_layernorm.weight": (_RANK,),
    "attention.q_b_proj.weight": (HEADS * (NOPE + ROPE), _RANK),
    "attention.kv_a_proj_with_mqa.weight": (KV_RANK + ROPE, HIDDEN),
    "attention.kv_a_layernorm.weight": (KV_RANK,),
    "attention.kv_b_proj.weight": (HEADS * (NOPE + VALUE), KV_RANK),
    "attention.g_proj.weight": (HEADS, HIDDEN),
    "attention.dense.weight": (HIDDEN, HEADS * VALUE),
}
_BAILING3_MOE = {
    "mlp.gate.weight": (EXPERTS, HIDDEN),
    "mlp.gate.expert_bias": (EXPERTS,),
    **experts("mlp.experts"),
    **gated("mlp.shared_experts"),
}


ROWS: Mapping[str, Model] = {
    "ArcticForCausalLM": (
        {**BASE, "num_local_experts": EXPERTS, "num_experts_per_tok": 2, "moe_layer_frequency": 1},
        EVERY
        | layers(
            ATTENTION
            | NORMS
            | _MIXTRAL
            | {"residual_layernorm.weight": (HIDDEN,)}
            | gated("residual_mlp", HIDDEN, "w1 w3 w2")
        ),
    ),
    "DeepseekOCRForCausalLM": (
        {
            **BASE,
            **MOE,
            "num_key_value_heads": HEADS,
            "n_routed_experts": EXPERTS,
            "n_shared_experts": 1,
            "first_k_dense_replace": 1,
            "kv_lora_rank": None,
            "q_lora_rank": None,
            "qk_nope_head_dim": 0,
            "qk_rope_head_dim": 0,
            "v_head_dim": 0,
            "use_mla": False,
            "topk_method": "greedy",
            "language_config": {"model_type": "deepseek_v2"},
            "vision_config": {"hidden_size": 4},
        },
        EVERY
        | {
            "model.sam_model.neck.weight": (4, 4),
            "model.vision_model.pre.weight": (4, 4),
            "model.projector.layers.weight": (HIDDEN, 4),
            "model.image_newline": (HIDDEN,),
            "model.view_seperator": (HIDDEN,),
        }
        | layers(
            {**NORMS, **{f"self_attn.{n}_proj.weight": (HIDDEN, HIDDEN) for n in "qkvo"}}
        )
        | layers(gated("mlp"), which=range(1))
        | layers(_MOE_MLP | gated("mlp.shared_experts"), which=range(1, 2)),
    ),
    "Grok1ForCausalLM": (
        {
            **BASE,
            "num_local_experts": EXPERTS,
            "num_experts": EXPERTS,
            "num_experts_per_tok": 2,
            "hidden_act": "gelu",
            "attn_output_multiplier": 0.08838834764831845,
            "embedding_multiplier_scale": 78.38367176906169,
            "output_multiplier_scale": 0.5773502691896257,
        },
        {
            "transformer.in_out_embed.weight": (VOCAB, HIDDEN),
            "transformer.rms_norm.weight": (HIDDEN,),
            "lm_head.weight": (VOCAB, HIDDEN),
        }
        | layers(
            {
                "multi_head_attention.query.weight": (Q, HIDDEN),
                "multi_head_attention.key.weight": (KV, HIDDEN),
                "multi_head_attention.value.weight": (KV, HIDDEN),
                "multi_head_attention.linear.weight": (HIDDEN, Q),
                **{f"rms_norm{n}.weight": (HIDDEN,) for n in ("", "_1", "_2", "_3")},
                "router.weight": (EXPERTS, HIDDEN),
                **experts("moe", "linear linear_v linear_1"),
            },
            "transformer.decoder_layer",
        ),
    ),
    "GroveMoeForCausalLM": (
        {**BASE, **MOE, "head_dim": DIM, "num_experts": EXPERTS, "norm_topk_prob": True},
        EVERY
        | layers(
            ATTENTION
            | NORMS
            | QK_NORMS
            | _MOE_MLP
            | {"mlp.expert_bias": (EXPERTS,)}
            | {
                f"mlp.chunk_experts.{i}.{n}_proj.weight": (
                    (HIDDEN, DIM) if n == "down" else (DIM, HIDDEN)
                )
                for i in range(EXPERTS // 2)
                for n in ("gate", "up", "down")
            }
        ),
    ),
    "MapleForCausalLM": (
        {
            **BASE,
            **MOE,
            "head_dim": DIM,
            "num_experts": EXPERTS,
            "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention"],
            "nope_on_global_attention": True,
            "norm_topk_prob": True,
            "num_shared_experts": 0,
        },
        EVERY | layers(ATTENTION | NORMS | QK_NORMS | _MOE_MLP),
    ),
    "MiniMaxText01ForCausalLM": (
        {
            **BASE,
            "head_dim": DIM,
            "rotary_dim": DIM // 2,
            "num_local_experts": EXPERTS,
            "num_experts_per_tok": 2,
            "num_hidden_layers": 8,
            "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1],
            "layernorm_full_attention_alpha": 3.5,
            "layernorm_full_attention_beta": 1.0,
            "layernorm_linear_attention_alpha": 3.5,
            "layernorm_linear_attention_beta": 1.0,
            "layernorm_mlp_alpha": 3.5,
            "layernorm_mlp_beta": 1.0,
            "postnorm": True,
            "shared_intermediate_size": 0,
        },
        EVERY
        | layers(NORMS | _MIXTRAL, which=range(8))
        | layers(
            {
                "self_attn.qkv_proj.weight": (3 * Q, HIDDEN),
                "self_attn.output_gate.weight": (Q, HIDDEN),
                "self_attn.norm.weight": (Q,),
                "self_attn.out_proj.weight": (HIDDEN, Q),
            },
            which=range(7),
        )
        | layers(ATTENTION, which=range(7, 8)),
    ),
    "PhiMoEForCausalLM": (
        {
            **BASE,
            "num_local_experts": EXPERTS,
            "num_experts_per_tok": 2,
            "original_max_position_embeddings": 32,
            "lm_head_bias": True,
            "attention_bias": True,
            "sliding_window": 64,
            "rope_scaling": {
                "type": "longrope",
                "short_factor": [1.0, 1.1, 1.2, 1.3],
                "long_factor": [1.0, 2.0, 3.0, 4.0],
                "short_mscale": 1.243163121016122,
                "long_mscale": 1.243163121016122,
                "original_max_position_embeddings": 32,
            },
        },
        {**EVERY, "lm_head.bias": (VOCAB,), "model.norm.bias": (HIDDEN,)}
        | layers(
            ATTENTION
            | NORMS
            | {"input_layernorm.bias": (HIDDEN,), "post_attention_layernorm.bias": (HIDDEN,)}
            | {f"self_attn.{n}_proj.bias": ({"k": KV, "v": KV}.get(n, HIDDEN),) for n in "qkvo"}
            | _MIXTRAL
        ),
    ),
    "SmallThinkerForCausalLM": (
        {
            **{k: v for k, v in BASE.items() if k not in ("intermediate_size", "hidden_act")},
            "head_dim": DIM,
            "moe_num_primary_experts": EXPERTS,
            "moe_num_active_primary_experts": 2,
            "moe_ffn_hidden_size": FF,
            "moe_primary_router_apply_softmax": False,
            "norm_topk_prob": True,
            "sliding_window_layout": [0, 1],
            "sliding_window_size": 8,
            "rope_layout": [0, 1],
        },
        EVERY
        | layers(
            ATTENTION
            | NORMS
            | {"block_sparse_moe.primary_router.weight": (EXPERTS, HIDDEN)}
            | experts("block_sparse_moe.experts", "gate up down")
        ),
    ),
    "BailingMoeV3ForCausalLM": (
        {
            **BASE,
            **MOE,
            **MLA,
            "num_hidden_layers": 3,
            "head_dim": DIM,
            "q_lora_rank": _RANK,
            "layer_group_size": 2,
            "short_conv_kernel_size": 4,
            "kda_safe_gate": True,
            "kda_lower_bound": -5.0,
            "no_kda_lora": True,
            "gated_attention_proj_granularity_type": "head_wise",
            "num_experts": EXPERTS,
            "num_shared_experts": 1,
            "moe_shared_expert_intermediate_size": FF,
            "first_k_dense_replace": 1,
            "routed_scaling_factor": 2.5,
            "norm_topk_prob": True,
            "score_function": "sigmoid",
            "n_group": 1,
            "topk_group": 1,
            "num_nextn_predict_layers": 0,
            "expert_swiglu_limit_list": [None, 7.0, 8.0],
            "share_expert_swiglu_limit_list": [None, 7.0, None],
        },
        {
            "model.word_embeddings.weight": (VOCAB, HIDDEN),
            "model.norm.weight": (HIDDEN,),
            "lm_head.weight": (VOCAB, HIDDEN),
        }
        | layers(NORMS, which=range(3))
        | layers(_KDA | gated("mlp"), which=range(1))
        | layers(_MLA | _BAILING3_MOE, which=range(1, 3)),
    ),
}  # fmt: skip
