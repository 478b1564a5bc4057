"""Decoders that differ from Llama by their parameters, and text models of those that see."""

from typing import Any

from tests.convert.golden.settings import (
    ALL_HEADS,
    BASE,
    DIM8,
    DIM16,
    EYES,
    HEADS,
    LLAMA3,
    LONG,
    SCALED,
    SMALL_EYES,
    TIED,
    VL,
    YARN,
)

DENSE: dict[str, tuple[str, dict[str, Any]]] = {
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
    "qwen2-vl": ("Qwen2VLForConditionalGeneration", {"text_config": VL, "vision_config": EYES}),
    "qwen2.5-vl": (
        "Qwen2_5_VLForConditionalGeneration", {"text_config": VL, "vision_config": EYES}
    ),
    "qwen3-vl": (
        "Qwen3VLForConditionalGeneration",
        {"text_config": {**VL, **DIM8}, "vision_config": EYES},
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
    "bitnet": ("BitNetForCausalLM", {**BASE, **TIED, "hidden_act": "silu"}),
    "bitnet-relu2": ("BitNetForCausalLM", {**BASE, **TIED, "hidden_act": "relu2"}),
    "bitnet-relu": ("BitNetForCausalLM", {**BASE, **TIED, "hidden_act": "relu"}),
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
    "hunyuan-vl": (
        "HunYuanVLForConditionalGeneration",
        {"text_config": {**VL, **DIM8, "rope_parameters": {
            "rope_type": "xdrope", "rope_theta": 10000.0, "alpha": 1000.0, "factor": 1.0,
            "xdrope_section": [1, 1, 1, 1]}},
         "vision_config": SMALL_EYES},
    ),
    "cwm": ("CwmForCausalLM", {**BASE, **DIM8, "sliding_window": 4, "rope_parameters": LLAMA3}),
    "ministral": ("MinistralForCausalLM", {**BASE, **DIM8, "sliding_window": 4}),
    "llama-rows": ("LlamaModel", BASE),
    "mistral-rows": ("MistralModel", {**BASE, "sliding_window": 4}),
    "qwen2-rows": ("Qwen2Model", BASE),
    "qwen3-rows": ("Qwen3Model", {**BASE, **DIM16}),
}  # fmt: skip
