"""Settings that make models tiny, shared by those of `models.py`. Holds no tests."""

from typing import Any

VOCAB, HIDDEN, FF, LAYERS, HEADS, KV_HEADS = 64, 32, 48, 2, 4, 2
BASE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "intermediate_size": FF,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ALL_HEADS = {name: value for name, value in BASE.items() if name != "num_key_value_heads"}
TIED = {"tie_word_embeddings": True}
DIM8 = {"head_dim": 8}
DIM16 = {"head_dim": 16}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}
LONG = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "original_max_position_embeddings": 8,
    "long_factor": [1.0, 2.0, 3.0, 4.0],
    "short_factor": [1.0, 1.5, 1.75, 2.0],
}
SCALED = {
    **YARN,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "original_max_position_embeddings": 8,
}
DELTA = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "num_hidden_layers": 4,
}
LATENT = {
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "num_key_value_heads": HEADS,
    "first_k_dense_replace": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "moe_layer_freq": 1,
}

VL = {
    **BASE,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e5, "mrope_section": [2, 1, 1]},
}
EYES = {
    "depth": 1,
    "embed_dim": 16,
    "hidden_size": 32,
    "out_hidden_size": 32,
    "num_heads": 2,
    "intermediate_size": 16,
    "patch_size": 2,
    "spatial_merge_size": 2,
    "fullatt_block_indexes": [0],
    "deepstack_visual_indexes": [0],
    "num_position_embeddings": 16,
}
SMALL_EYES = {
    "num_hidden_layers": 1,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
T5: dict[str, Any] = {
    "d_model": HIDDEN,
    "d_kv": 8,
    "d_ff": FF,
    "num_layers": LAYERS,
    "num_heads": HEADS,
    "vocab_size": VOCAB,
    "relative_attention_num_buckets": 8,
}
