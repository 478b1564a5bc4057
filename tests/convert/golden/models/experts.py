"""Decoders with experts."""

from typing import Any

from tests.convert.golden.settings import (
    BASE,
    DIM8,
    DIM16,
    EXPERTS,
    EYES,
    FF,
    HEADS,
    HIDDEN,
    LAYERS,
    VL,
    VOCAB,
    YARN,
)

EXPERTS: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3-vl-moe": (
        "Qwen3VLMoeForConditionalGeneration",
        {"text_config": {**VL, **DIM8, "num_experts": 4, "num_experts_per_tok": 2,
                         "moe_intermediate_size": 24},
         "vision_config": EYES},
    ),
    "glm4v-moe": (
        "Glm4vMoeForConditionalGeneration",
        {"text_config": {**VL, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1,
                         "first_k_dense_replace": 1,
                         "rope_parameters": {**VL["rope_parameters"], "partial_rotary_factor": 0.5,
                                             "mrope_section": [1, 1, 0]}},
         "vision_config": EYES},
    ),
    "solar-open": (
        "SolarOpenForCausalLM",
        {**BASE, **EXPERTS, **DIM8, "n_routed_experts": 4, "routed_scaling_factor": 1.5},
    ),
    "dots1": (
        "Dots1ForCausalLM",
        {**BASE, **EXPERTS, **DIM8, "n_routed_experts": 8, "n_shared_experts": 1, "n_group": 1,
         "topk_group": 1, "first_k_dense_replace": 1, "norm_topk_prob": True},
    ),
    "ernie-moe": (
        "Ernie4_5_MoeForCausalLM",
        {**BASE, **DIM8, "moe_intermediate_size": 32, "moe_k": 2, "moe_num_experts": 8,
         "moe_num_shared_experts": 1, "moe_layer_start_index": 1, "moe_layer_end_index": 1},
    ),
    "glm4-moe": (
        "Glm4MoeForCausalLM",
        {**BASE, **EXPERTS, **DIM8, "n_routed_experts": 8, "n_shared_experts": 1, "n_group": 1,
         "topk_group": 1, "first_k_dense_replace": 1, "norm_topk_prob": True,
         "use_qk_norm": True},
    ),
    "gpt-oss": (
        "GptOssForCausalLM",
        {**BASE, **DIM8, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4,
         "rope_parameters": {**YARN, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}},
    ),
    "granite-moe": (
        "GraniteMoeForCausalLM",
        {**BASE, "num_local_experts": 4, "num_experts_per_tok": 2, "attention_multiplier": 0.5,
         "embedding_multiplier": 3.0, "residual_multiplier": 0.7, "logits_scaling": 2.0},
    ),
    "granite-moe-shared": (
        "GraniteMoeSharedForCausalLM",
        {**BASE, "num_local_experts": 4, "num_experts_per_tok": 2,
         "shared_intermediate_size": 24},
    ),
    "minimax-m2": (
        "MiniMaxM2ForCausalLM",
        {**BASE, **DIM16, "num_local_experts": 4, "num_experts_per_tok": 2,
         "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                             "partial_rotary_factor": 0.5}},
    ),
    "mixtral": (
        "MixtralForCausalLM", {**BASE, "num_local_experts": 4, "num_experts_per_tok": 2}
    ),
    "olmoe": ("OlmoeForCausalLM", {**BASE, "num_experts": 4, "num_experts_per_tok": 2}),
    "qwen2-moe": (
        "Qwen2MoeForCausalLM",
        {**BASE, **EXPERTS, "num_experts": 4, "shared_expert_intermediate_size": 40},
    ),
    "qwen3-moe": (
        "Qwen3MoeForCausalLM",
        {**BASE, **EXPERTS, **DIM16, "num_experts": 4, "norm_topk_prob": True},
    ),
    "afmoe": (
        "AfmoeForCausalLM",
        {**BASE, **EXPERTS, **DIM8, "num_experts": 4, "num_shared_experts": 1,
         "num_dense_layers": 1, "num_hidden_layers": 4, "sliding_window": 4, "mup_enabled": True,
         "route_scale": 1.5},
    ),
    "cohere2-moe": (
        "Cohere2MoeForCausalLM",
        {**BASE, **DIM8, "num_hidden_layers": 4, "num_experts": 4, "num_experts_per_tok": 2,
         "sliding_window": 4, "num_shared_experts": 1, "expert_selection_fn": "sigmoid",
         "norm_topk_prob": True},
    ),
    "mellum": (
        "MellumForCausalLM",
        {**BASE, **DIM8, **EXPERTS, "num_hidden_layers": 4, "num_experts": 4, "sliding_window": 4},
    ),
    "dbrx": (
        "DbrxForCausalLM",
        {"vocab_size": VOCAB, "d_model": HIDDEN, "n_heads": HEADS, "n_layers": LAYERS,
         "max_seq_len": 64,
         "attn_config": {"kv_n_heads": 2, "clip_qkv": 1.5, "rope_theta": 10000.0},
         "ffn_config": {"ffn_hidden_size": FF, "moe_num_experts": 4, "moe_top_k": 2}},
    ),
    "exaone-moe": (
        "ExaoneMoeForCausalLM",
        {**BASE, **EXPERTS, **DIM8, "num_experts": 4, "num_shared_experts": 1,
         "first_k_dense_replace": 1, "num_hidden_layers": 4, "sliding_window": 4},
    ),
    "hunyuan-moe": (
        "HunYuanMoEV1ForCausalLM", {**BASE, **DIM8, "num_experts": 4, "moe_topk": 2}
    ),
    "llama4": (
        "Llama4ForCausalLM",
        {**BASE, **DIM8, "num_hidden_layers": 4, "num_local_experts": 4, "num_experts_per_tok": 1,
         "intermediate_size_mlp": 64, "interleave_moe_layer_step": 2, "attention_chunk_size": 4,
         "no_rope_layers": [1, 1, 1, 0]},
    ),
}  # fmt: skip
