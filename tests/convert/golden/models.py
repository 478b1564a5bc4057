"""The models of this folder: their class in `transformers` and the settings that make them tiny.

Holds no tests.
"""

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

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", {**BASE, "head_dim": 16}),
    "llama-biases": ("LlamaForCausalLM", {**BASE, "attention_bias": True}),
    "llama-llama3": ("LlamaForCausalLM", {**BASE, "rope_parameters": LLAMA3}),
    "llama-yarn-mscale": (
        "LlamaForCausalLM",
        {**BASE, "head_dim": 16,
         "rope_parameters": {**YARN, "mscale": 0.7, "mscale_all_dim": 0.9}},
    ),
    "llama-heads": ("LlamaForCausalLM", ALL_HEADS),
    "llama-tied": ("LlamaForCausalLM", {**BASE, "tie_word_embeddings": True}),
    "mistral": ("MistralForCausalLM", {**BASE, "sliding_window": 4}),
    "jais2": ("Jais2ForCausalLM", {**BASE, **DIM8}),
    "ministral3": ("Ministral3ForCausalLM", {**BASE, **DIM8, "rope_parameters": SCALED}),
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
    "qwen2-vl": ("Qwen2VLForConditionalGeneration", {"text_config": VL, "vision_config": EYES}),
    "qwen2.5-vl": (
        "Qwen2_5_VLForConditionalGeneration", {"text_config": VL, "vision_config": EYES}
    ),
    "qwen3-vl": (
        "Qwen3VLForConditionalGeneration",
        {"text_config": {**VL, **DIM8}, "vision_config": EYES},
    ),
    "qwen3-vl-moe": (
        "Qwen3VLMoeForConditionalGeneration",
        {"text_config": {**VL, **DIM8, "num_experts": 4, "num_experts_per_tok": 2,
                         "moe_intermediate_size": 24},
         "vision_config": EYES},
    ),
    "gemma3n": (
        "Gemma3nForCausalLM",
        {**BASE, **DIM8, **TIED, "num_hidden_layers": 5, "intermediate_size": [FF] * 5,
         "vocab_size_per_layer_input": VOCAB, "hidden_size_per_layer_input": 8, "laurel_rank": 8,
         "num_kv_shared_layers": 2, "sliding_window": 4, "altup_num_inputs": 4,
         "layer_types": ["sliding_attention", "full_attention"] * 2 + ["full_attention"],
         "activation_sparsity_pattern": [0.95, 0.95, 0.0, 0.0, 0.0]},
    ),
    "arcee": ("ArceeForCausalLM", BASE),
    "apertus": ("ApertusForCausalLM", BASE),
    "cohere": ("CohereForCausalLM", {**BASE, "tie_word_embeddings": True, "logit_scale": 0.25}),
    "cohere2": (
        "Cohere2ForCausalLM",
        {**BASE, "tie_word_embeddings": True, "num_hidden_layers": 4, "sliding_window": 4},
    ),
    "ernie": ("Ernie4_5ForCausalLM", {**BASE, **DIM8}),
    "exaone4": (
        "Exaone4ForCausalLM",
        {**BASE, "num_hidden_layers": 4, "sliding_window": 4, "sliding_window_pattern": 4},
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
    "glm": ("GlmForCausalLM", {**BASE, **DIM8}),
    "glm4": ("Glm4ForCausalLM", {**BASE, **DIM8}),
    "granite": (
        "GraniteForCausalLM",
        {**BASE, "attention_multiplier": 0.5, "embedding_multiplier": 3.0,
         "residual_multiplier": 0.7, "logits_scaling": 2.0},
    ),
    "hunyuan": ("HunYuanDenseV1ForCausalLM", {**BASE, **DIM8}),
    "nemotron": ("NemotronForCausalLM", {**BASE, **DIM8}),
    "olmo": ("OlmoForCausalLM", {**BASE, "clip_qkv": 1.5}),
    "olmo2": ("Olmo2ForCausalLM", BASE),
    "olmo3": ("Olmo3ForCausalLM", {**BASE, "num_hidden_layers": 4, "sliding_window": 4}),
    "olmo3-bases": (
        "Olmo3ForCausalLM",
        {**BASE, "num_hidden_layers": 4, "sliding_window": 4,
         "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 500.0},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 5e5}}},
    ),
    "phi3": ("Phi3ForCausalLM", {**BASE, "sliding_window": 4}),
    "phi3-long": (
        "Phi3ForCausalLM",
        {**BASE, "max_position_embeddings": 128, "original_max_position_embeddings": 8,
         "rope_parameters": LONG},
    ),
    "qwen2": ("Qwen2ForCausalLM", BASE),
    "qwen2-heads": ("Qwen2ForCausalLM", {**BASE, "num_key_value_heads": HEADS}),
    "qwen2-windows": (
        "Qwen2ForCausalLM",
        {**BASE, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3ForCausalLM", {**BASE, **DIM16}),
    "qwen3-yarn": ("Qwen3ForCausalLM", {**BASE, **DIM16, "rope_parameters": YARN}),
    "qwen3-yarn-factor": (
        "Qwen3ForCausalLM",
        {**BASE, **DIM16, "rope_parameters": {**YARN, "attention_factor": 0.8}},
    ),
    "seed-oss": ("SeedOssForCausalLM", {**BASE, **DIM8}),
    "smollm3": ("SmolLM3ForCausalLM", {**BASE, "num_hidden_layers": 4}),
    # Text models of those that see images too, and others of the kind of Llama.
    "bitnet": ("BitNetForCausalLM", {**BASE, **TIED, "hidden_act": "silu"}),
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
    "youtu": (
        "YoutuForCausalLM",
        {**BASE, **{k: v for k, v in LATENT.items() if "expert" not in k}},
    ),
    "glm4v": (
        "Glm4vForConditionalGeneration",
        {"text_config": {**VL, "rope_parameters": {**VL["rope_parameters"],
                                                   "partial_rotary_factor": 0.5,
                                                   "mrope_section": [1, 1, 0]}},
         "vision_config": EYES},
    ),
    "glm-ocr": (
        "GlmOcrForConditionalGeneration",
        {"text_config": {**VL, **DIM8}, "vision_config": EYES},
    ),
    "paddleocr": (
        "PaddleOCRVLForConditionalGeneration",
        {"text_config": {**VL, **DIM8}, "vision_config": SMALL_EYES},
    ),
    "muse-glimmer": (
        "MuseGlimmerForConditionalGeneration",
        {"text_config": {**BASE, **DIM8, "num_hidden_layers": 4, "sliding_window": 4,
                         "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
                         "layer_rope_theta": [10000.0] * 3 + [0]},
         "vision_config": SMALL_EYES},
    ),
    "deepseek32": (
        "DeepseekV32ForCausalLM",
        {**BASE, **EXPERTS, **LATENT, "n_group": 4, "topk_group": 2, "norm_topk_prob": True,
         "routed_scaling_factor": 2.5, "index_topk": 64, "index_head_dim": 16, "index_n_heads": 2,
         "num_nextn_predict_layers": 1},
    ),
    "glm-dsa": (
        "GlmMoeDsaForCausalLM",
        {**BASE, **EXPERTS, **LATENT, "index_topk": 64, "index_head_dim": 16, "index_n_heads": 2,
         "mlp_layer_types": ["dense", "sparse"]},
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
    "kimi-linear": (
        "KimiLinearForCausalLM",
        {**BASE, **{k: v for k, v in LATENT.items() if k != "q_lora_rank"}, "model_max_length": 64,
         "num_experts": 4, "num_experts_per_token": 2, "moe_intermediate_size": 32,
         "num_hidden_layers": 4, "linear_head_dim": 8, "linear_num_heads": 4,
         "layer_types": ["linear_attention"] * 3 + ["full_attention"]},
    ),
    "jina3": ("JinaEmbeddingsV3Model", ALL_HEADS),
    "cwm": ("CwmForCausalLM", {**BASE, **DIM8, "sliding_window": 4, "rope_parameters": LLAMA3}),
    "ministral": ("MinistralForCausalLM", {**BASE, **DIM8, "sliding_window": 4}),
    # Of the kind of GPT.
    "bloom": (
        "BloomForCausalLM",
        {"vocab_size": VOCAB, "hidden_size": HIDDEN, "n_layer": LAYERS, "n_head": HEADS,
         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    ),
    "falcon": (
        "FalconForCausalLM",
        {**ALL_HEADS, **TIED, "num_kv_heads": 2, "new_decoder_architecture": True},
    ),
    "falcon-7b": ("FalconForCausalLM", {**ALL_HEADS, **TIED, "multi_query": True}),
    "gpt2": (
        "GPT2LMHeadModel",
        {"vocab_size": VOCAB, "n_embd": HIDDEN, "n_layer": LAYERS, "n_head": HEADS,
         "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2},
    ),
    "starcoder": (
        "GPTBigCodeForCausalLM",
        {"vocab_size": VOCAB, "n_embd": HIDDEN, "n_layer": LAYERS, "n_head": HEADS,
         "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    ),
    "starcoder-heads": (
        "GPTBigCodeForCausalLM",
        {"vocab_size": VOCAB, "n_embd": HIDDEN, "n_layer": LAYERS, "n_head": HEADS,
         "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
         "multi_query": False},
    ),
    "gptneox": ("GPTNeoXForCausalLM", {**ALL_HEADS, "rotary_pct": 0.5}),
    "gptneox-sequential": (
        "GPTNeoXForCausalLM",
        {**ALL_HEADS, "rotary_pct": 0.25, "use_parallel_residual": False},
    ),
    "mpt": (
        "MptForCausalLM",
        {"vocab_size": VOCAB, "d_model": HIDDEN, "n_layers": LAYERS, "n_heads": HEADS,
         "max_seq_len": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    ),
    "phi2": ("PhiForCausalLM", {**BASE, "partial_rotary_factor": 0.5}),
    "stablelm": ("StableLmForCausalLM", {**BASE, "use_qkv_bias": True}),
    "stablelm2": (
        "StableLmForCausalLM",
        {**BASE, "qk_layernorm": True, "use_parallel_residual": True},
    ),
    "stablelm-whole": ("StableLmForCausalLM", {**BASE, "partial_rotary_factor": 1.0}),
    "starcoder2": ("Starcoder2ForCausalLM", {**BASE, "sliding_window": 4}),
    # With experts.
    "deepseek2": ("DeepseekV2ForCausalLM", {**BASE, **EXPERTS, **LATENT, "topk_method": "greedy"}),
    "deepseek2-lite": (
        "DeepseekV2ForCausalLM",
        {**BASE, **EXPERTS, **LATENT, "q_lora_rank": None, "topk_method": "greedy",
         "routed_scaling_factor": 1.5},
    ),
    "deepseek3": (
        "DeepseekV3ForCausalLM",
        {**BASE, **EXPERTS, **LATENT, "n_group": 4, "topk_group": 2, "norm_topk_prob": True,
         "routed_scaling_factor": 2.5},
    ),
    "deepseek3-yarn": (
        "DeepseekV3ForCausalLM",
        {**BASE, **EXPERTS, **LATENT, "n_group": 4, "topk_group": 2,
         "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}},
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
    "glm4-lite": ("Glm4MoeLiteForCausalLM", {**BASE, **EXPERTS, **LATENT}),
    "hunyuan-moe": (
        "HunYuanMoEV1ForCausalLM", {**BASE, **DIM8, "num_experts": 4, "moe_topk": 2}
    ),
    "llama4": (
        "Llama4ForCausalLM",
        {**BASE, **DIM8, "num_hidden_layers": 4, "num_local_experts": 4, "num_experts_per_tok": 1,
         "intermediate_size_mlp": 64, "interleave_moe_layer_step": 2, "attention_chunk_size": 4,
         "no_rope_layers": [1, 1, 1, 0]},
    ),
    "minicpm3": (
        "MiniCPM3ForCausalLM",
        {**BASE, **{k: v for k, v in LATENT.items() if "expert" not in k}, "dim_model_base": 16},
    ),
    "mistral4": (
        "Mistral4ForCausalLM",
        {**BASE, **EXPERTS, **LATENT,
         "rope_parameters": {**SCALED, "partial_rotary_factor": 0.5}},
    ),
    # With states.
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
    # Encoders.
    "gemma-embedding": (
        "Gemma3TextModel",
        {**BASE, **DIM8, "sliding_window": 8, "num_hidden_layers": 6, "query_pre_attn_scalar": 8,
         "use_bidirectional_attention": True},
    ),
    "llama-rows": ("LlamaModel", BASE),
    "mistral-rows": ("MistralModel", {**BASE, "sliding_window": 4}),
    "qwen2-rows": ("Qwen2Model", BASE),
    "qwen3-rows": ("Qwen3Model", {**BASE, **DIM16}),
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
    "nomic-bert": ("NomicBertModel", ALL_HEADS),
    "roberta": ("RobertaModel", ALL_HEADS),
}  # fmt: skip
