"""Models that see or hear beside a text model of another family: that family converts it, and the
rest is left out. Knows none of the others' tensors."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgellm.convert.families.family import Family

# Where settings of the text model lie, by the model's class.
WRAPPERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            *("AudioFlamingo3ForConditionalGeneration", "AyaVisionForConditionalGeneration"),
            *("Cohere2VisionForConditionalGeneration", "FastVlmForConditionalGeneration"),
            *("GotOcr2ForConditionalGeneration", "GraniteSpeechForConditionalGeneration"),
            *("Idefics3ForConditionalGeneration", "InternVLForConditionalGeneration"),
            *("JanusForConditionalGeneration", "KimiK25ForConditionalGeneration"),
            *("KimiVLForConditionalGeneration", "Lfm2VlForConditionalGeneration"),
            *("LightOnOcrForConditionalGeneration", "LightOnOCRForConditionalGeneration"),
            *("LlavaNextForConditionalGeneration", "LlavaNextVideoForConditionalGeneration"),
            *("LlavaOnevisionForConditionalGeneration", "Ovis2ForConditionalGeneration"),
            *("PerceptionLMForConditionalGeneration", "Qwen2AudioForConditionalGeneration"),
            *("SmolVLMForConditionalGeneration", "UltravoxModel"),
            *("VideoLlama3ForConditionalGeneration", "VideoLlavaForConditionalGeneration"),
            *("VipLlavaForConditionalGeneration", "VoxtralForConditionalGeneration"),
        ),
        ("text_config",),
    ),
    "InternVLChatModel": ("llm_config",),
    **dict.fromkeys(
        ("Qwen2_5OmniModel", "Qwen2_5OmniForConditionalGeneration"),
        ("thinker_config", "text_config"),
    ),
}
# Classes of text models by `model_type`, where settings name no class.
_TEXT_MODELS: Mapping[str, str] = {
    "cohere": "CohereForCausalLM",
    "cohere2": "Cohere2ForCausalLM",
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "granite": "GraniteForCausalLM",
    "internlm2": "InternLM2ForCausalLM",
    "lfm2": "Lfm2ForCausalLM",
    "lfm2_moe": "Lfm2MoeForCausalLM",
    "llama": "LlamaForCausalLM",
    "ministral3": "Ministral3ForCausalLM",
    "mistral": "MistralForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen2_5_omni_text": "Qwen2_5_VLForConditionalGeneration",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
}
# Names of text models' tensors inside, and as their own class has them.
_NAMES: Mapping[str, str] = {
    r"^thinker\.": "",
    r"^language_model\.(lm_head|output)\.": r"\1.",
    r"^(model\.)?(language_model|text_model)\.(model\.)?": "model.",
}
_OTHERS = r"^(?!(model\.)?(language_model|text_model)\.|lm_head\.|thinker\.(model|lm_head)\.)"


def unwrapped(name: str, config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The class of the text model inside a wrapper, and config.json with its settings at
    `text_config`. The class is "" where they do not tell it."""
    inner: Any = config
    for part in WRAPPERS[name]:
        inner = inner.get(part) if isinstance(inner, dict) else None
    text = inner if isinstance(inner, dict) else {}
    classes = text.get("architectures")
    given = classes[0] if isinstance(classes, list) and classes else None
    found = given or _TEXT_MODELS.get(str(text.get("model_type", "llama")), "")
    return str(found), {**config, "text_config": text}


def inside(family: Family) -> Family:
    """The text model's family, for its tensors inside a wrapper."""
    return replace(
        family,
        renames={**_NAMES, **family.renames},
        left=(*family.left, _OTHERS),
        nested="text_config",
    )
