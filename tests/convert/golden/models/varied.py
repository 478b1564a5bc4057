"""Gemma, and others whose layers differ from each other."""

from typing import Any

from tests.convert.golden.settings import (
    ALL_HEADS,
    BASE,
    DIM8,
    DIM16,
    EXPERTS,
    FF,
    SMALL_EYES,
    TIED,
    VOCAB,
)

VARIED: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma4": (
        "Gemma4ForCausalLM",
        {**BASE, **DIM8, **TIED, "num_hidden_layers": 4, "global_head_dim": 16,
         "vocab_size_per_layer_input": VOCAB, "hidden_size_per_layer_input": 8,
         "num_kv_shared_layers": 2, "sliding_window": 4, "use_double_wide_mlp": True,
         "layer_types": ["sliding_attention", "full_attention"] * 2},
    ),
    "gemma4-moe": (
        "Gemma4ForCausalLM",
        {**BASE, **DIM8, **TIED, "num_hidden_layers": 2, "global_head_dim": 16,
         "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "sliding_window": 4,
         "attention_k_eq_v": True, "num_global_key_value_heads": 1, "enable_moe_block": True,
         "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32,
         "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "gemma3n": (
        "Gemma3nForCausalLM",
        {**BASE, **DIM8, **TIED, "num_hidden_layers": 5, "intermediate_size": [FF] * 5,
         "vocab_size_per_layer_input": VOCAB, "hidden_size_per_layer_input": 8, "laurel_rank": 8,
         "num_kv_shared_layers": 2, "sliding_window": 4, "altup_num_inputs": 4,
         "layer_types": ["sliding_attention", "full_attention"] * 2 + ["full_attention"],
         "activation_sparsity_pattern": [0.95, 0.95, 0.0, 0.0, 0.0]},
    ),
    "gemma": ("GemmaForCausalLM", {**BASE, **DIM16, "tie_word_embeddings": True}),
    "gemma2": (
        "Gemma2ForCausalLM",
        {**BASE, **DIM16, "tie_word_embeddings": True, "sliding_window": 4,
         "query_pre_attn_scalar": 16},
    ),
    "gemma2-scale": (
        "Gemma2ForCausalLM",
        {**BASE, **DIM16, "tie_word_embeddings": True, "sliding_window": 4,
         "query_pre_attn_scalar": 32},
    ),
    "gemma3": (
        "Gemma3ForCausalLM",
        {**BASE, **DIM16, "tie_word_embeddings": True, "sliding_window": 4,
         "num_hidden_layers": 6, "query_pre_attn_scalar": 16},
    ),
    "granite-swa": (
        "GraniteSWAForCausalLM",
        {**BASE, "num_hidden_layers": 4, "sliding_window": 4, "attention_multiplier": 0.5,
         "embedding_multiplier": 3.0, "residual_multiplier": 0.7, "logits_scaling": 2.0,
         "layer_types": ["full_attention", "sliding_attention"] * 2,
         "layer_rope_theta": [0, 10000.0, 10000.0, 10000.0]},
    ),
    "granite-moe-swa": (
        "GraniteMoeSWAForCausalLM",
        {**BASE, "num_hidden_layers": 4, "sliding_window": 4, "num_local_experts": 4,
         "shared_intermediate_size": 24, "residual_multiplier": 0.7},
    ),
    "hrm-text": (
        "HrmTextForCausalLM",
        {**ALL_HEADS, **DIM8, "num_hidden_layers": 16, "num_layers_per_stack": 2, "H_cycles": 2,
         "L_cycles": 3, "embedding_scale": 4.0, "prefix_lm": False},
    ),
    "minimax": (
        "MiniMaxForCausalLM",
        {**BASE, **DIM8, "rms_norm_eps": 1e-6, "num_hidden_layers": 8,
         "num_local_experts": 4, "num_experts_per_tok": 2,
         "layer_types": ["linear_attention"] * 7 + ["full_attention"],
         **{f"{kind}_{of}_factor": value for kind in ("full_attn", "linear_attn", "mlp")
            for of, value in (("alpha", 1.5), ("beta", 1.0))}},
    ),
    "minimax-m3": (
        "MiniMaxM3VLForCausalLM",
        {**BASE, **DIM8, "num_hidden_layers": 3, "num_local_experts": 4, "num_experts_per_tok": 2,
         "dense_intermediate_size": 40, "shared_intermediate_size": 24, "rotary_dim": 4,
         "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                             "partial_rotary_factor": 0.5},
         "mlp_layer_types": ["dense", "sparse", "sparse"], "index_n_heads": 2, "index_head_dim": 8,
         "index_block_size": 32, "index_topk_blocks": 2,
         "layer_types": ["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"]},
    ),
    "muse-glimmer": (
        "MuseGlimmerForConditionalGeneration",
        {"text_config": {**BASE, **DIM8, "num_hidden_layers": 4, "sliding_window": 4,
                         "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
                         "layer_rope_theta": [10000.0] * 3 + [0]},
         "vision_config": SMALL_EYES},
    ),
    "hy3": (
        "HYV3ForCausalLM",
        {**BASE, **EXPERTS, **DIM8, "num_experts": 4, "router_scaling_factor": 1.5},
    ),
    "laguna": (
        "LagunaForCausalLM",
        {**BASE, **EXPERTS, **DIM8, "num_hidden_layers": 4, "num_experts": 4, "sliding_window": 4,
         "shared_expert_intermediate_size": 24, "moe_routed_scaling_factor": 1.5,
         "num_attention_heads_per_layer": [4, 2, 2, 4],
         "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                         "full_attention"]},
    ),
    "mimo2": (
        "MiMoV2FlashForCausalLM",
        {**BASE, **EXPERTS, "head_dim": 16, "v_head_dim": 8, "n_routed_experts": 4,
         "num_hidden_layers": 4, "sliding_window": 4,
         "rope_parameters": {
             kind: {"rope_type": "default", "rope_theta": base, "partial_rotary_factor": 0.5}
             for kind, base in (("full_attention", 5e6), ("sliding_attention", 1e4))},
         "layer_types": ["full_attention"] + ["sliding_attention"] * 2 + ["full_attention"]},
    ),
    "step3.7": (
        "Step3p7ForConditionalGeneration",
        {"text_config": {**BASE, **EXPERTS, **DIM8, "num_hidden_layers": 4, "n_routed_experts": 4,
                         "share_expert_dim": 24, "sliding_window": 4,
                         "num_sliding_attention_heads": 2,
                         "mlp_layer_types": ["dense"] + ["sparse"] * 3,
                         "rope_parameters": {
                             "full_attention": {"rope_type": "default", "rope_theta": 5e6,
                                                "partial_rotary_factor": 0.5},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}},
                         "layer_types": ["full_attention"] + ["sliding_attention"] * 3},
         "vision_config": SMALL_EYES},
    ),
    "gemma-embedding": (
        "Gemma3TextModel",
        {**BASE, **DIM8, "sliding_window": 8, "num_hidden_layers": 6, "query_pre_attn_scalar": 8,
         "use_bidirectional_attention": True},
    ),
}  # fmt: skip
