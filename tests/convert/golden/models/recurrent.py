"""Decoders with states."""

from typing import Any

from tests.convert.golden.settings import BASE, DELTA, DIM8, EXPERTS, HIDDEN, LAYERS, VOCAB

RECURRENT: dict[str, tuple[str, dict[str, Any]]] = {
    "bamba": (
        "BambaForCausalLM",
        {**BASE, "attn_layer_indices": [1], "mamba_n_heads": 4, "mamba_d_head": 16,
         "mamba_n_groups": 1, "mamba_d_state": 16},
    ),
    "nemotron-h": (
        "NemotronHForCausalLM",
        {**BASE, **DIM8, "layers_block_type": ["mamba", "attention", "mlp", "mamba"],
         "mamba_num_heads": 4, "mamba_head_dim": 16, "ssm_state_size": 16, "n_groups": 2},
    ),
    "nemotron-h-moe": (
        "NemotronHForCausalLM",
        {**BASE, **DIM8, **EXPERTS, "layers_block_type": ["mamba", "attention", "moe"],
         "mamba_num_heads": 4, "mamba_head_dim": 16, "ssm_state_size": 16, "n_groups": 2,
         "n_routed_experts": 4, "moe_shared_expert_intermediate_size": 40,
         "routed_scaling_factor": 1.5},
    ),
    "qwen3-next": (
        "Qwen3NextForCausalLM",
        {**BASE, **EXPERTS, **DIM8, **DELTA, "num_experts": 4, "norm_topk_prob": True,
         "shared_expert_intermediate_size": 24},
    ),
    "qwen3.5": ("Qwen3_5ForCausalLM", {**BASE, **DIM8, **DELTA}),
    "qwen3.5-moe": (
        "Qwen3_5MoeForCausalLM",
        {**BASE, **EXPERTS, **DIM8, **DELTA, "num_experts": 4,
         "shared_expert_intermediate_size": 24},
    ),
    "falcon-h1": (
        "FalconH1ForCausalLM",
        {**BASE, **DIM8, "mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16,
         "mamba_n_groups": 1, "mamba_d_state": 16, "mamba_chunk_size": 8},
    ),
    "falcon-h1-multipliers": (
        "FalconH1ForCausalLM",
        {**BASE, **DIM8, "mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16,
         "mamba_n_groups": 1, "mamba_d_state": 16, "mamba_chunk_size": 8, "key_multiplier": 0.5,
         "lm_head_multiplier": 0.7, "embedding_multiplier": 2.0, "attention_out_multiplier": 0.6,
         "ssm_multipliers": [0.5, 0.6, 0.7, 0.8, 0.9], "mlp_multipliers": [0.6, 0.7],
         "ssm_in_multiplier": 0.8, "ssm_out_multiplier": 1.2, "attention_in_multiplier": 0.9},
    ),
    "falcon-mamba": (
        "FalconMambaForCausalLM",
        {"vocab_size": VOCAB, "hidden_size": HIDDEN, "state_size": 8, "num_hidden_layers": LAYERS,
         "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    ),
    "granite-hybrid": (
        "GraniteMoeHybridForCausalLM",
        {**BASE, "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 24,
         "layer_types": ["mamba", "attention"], "mamba_n_heads": 4, "mamba_d_head": 16,
         "mamba_n_groups": 2, "mamba_d_state": 16, "mamba_expand": 2,
         "position_embedding_type": None},
    ),
    "jamba": (
        "JambaForCausalLM",
        {**BASE, "num_hidden_layers": 4, "num_experts": 4, "num_experts_per_tok": 2,
         "attn_layer_offset": 1, "attn_layer_period": 2, "expert_layer_offset": 1,
         "expert_layer_period": 2, "mamba_d_state": 8, "mamba_dt_rank": 4,
         "use_mamba_kernels": False},
    ),
    "lfm2": (
        "Lfm2ForCausalLM",
        {**BASE, "tie_word_embeddings": True, "num_hidden_layers": 3, "block_multiple_of": 16,
         "layer_types": ["conv", "full_attention", "conv"]},
    ),
    "lfm2-rows": (
        "Lfm2Model",
        {**BASE, "tie_word_embeddings": True, "num_hidden_layers": 3, "block_multiple_of": 16,
         "layer_types": ["conv", "full_attention", "conv"]},
    ),
    "lfm2-moe": (
        "Lfm2MoeForCausalLM",
        {**BASE, **EXPERTS, "tie_word_embeddings": True, "num_hidden_layers": 3,
         "num_dense_layers": 1, "num_experts": 4, "norm_topk_prob": True,
         "layer_types": ["conv", "full_attention", "conv"]},
    ),
    "mamba": (
        "MambaForCausalLM",
        {"vocab_size": VOCAB, "hidden_size": HIDDEN, "state_size": 8, "num_hidden_layers": LAYERS,
         "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    ),
    "mamba2": (
        "Mamba2ForCausalLM",
        {"vocab_size": VOCAB, "hidden_size": HIDDEN, "state_size": 16, "num_hidden_layers": LAYERS,
         "head_dim": 16, "num_heads": 4, "n_groups": 2, "chunk_size": 8,
         "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    ),
}  # fmt: skip
