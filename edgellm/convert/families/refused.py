"""Classes of models that are known and not converted, and why."""

from collections.abc import Mapping

from edgellm.models.registry import NO_LANGUAGE_MODELS, NOT_RUN

_TOKENIZER = "its tokenizer, a lattice over tokens of its own, is not run"
_REASONS: Mapping[str, str] = {  # by architecture
    "dots3note": "its conversion is not written",
    "plamo2": _TOKENIZER,
    "plamo3": _TOKENIZER,
}
# By class, the architecture in GGUF.
_ARCHITECTURES: Mapping[str, str] = {
    "PLaMo2ForCausalLM": "plamo2",
    "PLaMo3ForCausalLM": "plamo3",
    "Plamo2ForCausalLM": "plamo2",
    "Plamo3ForCausalLM": "plamo3",
    "ChameleonForConditionalGeneration": "chameleon",
    "DeepseekV4ForCausalLM": "deepseek4",
    "Dots3NoteForCausalLM": "dots3note",
    "DreamModel": "dream",
    "Eagle3LlamaForCausalLM": "eagle3",
    "GPTJForCausalLM": "gptj",
    "Gemma4AssistantForCausalLM": "gemma4-assistant",
    "Glm5NextForConditionalGeneration": "glm5-next",
    "GraniteSwitchForCausalLM": "graniteswitch",
    "HYV4ForCausalLM": "hy_v4",
    "KimiK3ForConditionalGeneration": "kimi-k3",
    "LLaDAMoEModelLM": "llada-moe",
    "LLaDAModelLM": "llada",
    "LlamaForCausalLMEagle3": "eagle3",
    "Qwen4ExpForCausalLM": "qwen4exp",
    "RND1": "rnd1",
    "WhisperForConditionalGeneration": "whisper",
}


def why_not(name: str) -> str | None:
    """Why a class is not converted; None for one that is not known at all."""
    architecture = _ARCHITECTURES.get(name)
    if architecture is None:
        return None
    reason = NOT_RUN.get(architecture) or NO_LANGUAGE_MODELS.get(architecture)
    if reason is not None:
        return f"{architecture} in GGUF, which is not run: {reason}"
    return f"{architecture} in GGUF: {_REASONS[architecture]}"
