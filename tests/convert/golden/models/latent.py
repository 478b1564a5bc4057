"""Decoders whose attention goes through latents."""

from typing import Any

from tests.convert.golden.settings import BASE, EXPERTS, LATENT, SCALED, YARN

LATENT: dict[str, tuple[str, dict[str, Any]]] = {
    "youtu": (
        "YoutuForCausalLM",
        {**BASE, **{k: v for k, v in LATENT.items() if "expert" not in k}},
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
    "kimi-linear": (
        "KimiLinearForCausalLM",
        {**BASE, **{k: v for k, v in LATENT.items() if k != "q_lora_rank"}, "model_max_length": 64,
         "num_experts": 4, "num_experts_per_token": 2, "moe_intermediate_size": 32,
         "num_hidden_layers": 4, "linear_head_dim": 8, "linear_num_heads": 4,
         "layer_types": ["linear_attention"] * 3 + ["full_attention"]},
    ),
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
    "glm4-lite": ("Glm4MoeLiteForCausalLM", {**BASE, **EXPERTS, **LATENT}),
    "minicpm3": (
        "MiniCPM3ForCausalLM",
        {**BASE, **{k: v for k, v in LATENT.items() if "expert" not in k}, "dim_model_base": 16},
    ),
    "mistral4": (
        "Mistral4ForCausalLM",
        {**BASE, **EXPERTS, **LATENT,
         "rope_parameters": {**SCALED, "partial_rotary_factor": 0.5}},
    ),
}  # fmt: skip
