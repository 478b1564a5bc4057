"""Classes of models that are known and not converted, and why."""

from collections.abc import Mapping

from edgellm.models.registry import NO_LANGUAGE_MODELS, NOT_RUN

_NOT_WRITTEN = (
    "files of it that others made are run, but no conversion has been written and held to the "
    "model's own code"
)
_REASONS: Mapping[str, str] = {  # by architecture
    "phimoe": "its graph weighs the chosen experts by their softmax, and the model's own code by "
    "another rule, so that the file would compute something else",
}
# By class, the architecture in GGUF.
_ARCHITECTURES: Mapping[str, str] = {
    "ArcticForCausalLM": "arctic",
    "CodeShellForCausalLM": "codeshell",
    "CogVLMForCausalLM": "cogvlm",
    "DeciLMForCausalLM": "deci",
    "DeepseekOCRForCausalLM": "deepseek2-ocr",
    "GPTRefactForCausalLM": "refact",
    "Grok1ForCausalLM": "grok",
    "GrokForCausalLM": "grok",
    "HunYuanVLForConditionalGeneration": "hunyuan_vl",
    "JAISLMHeadModel": "jais",
    "JinaBertForMaskedLM": "jina-bert-v2",
    "JinaBertModel": "jina-bert-v2",
    "MaincoderForCausalLM": "maincoder",
    "MapleForCausalLM": "maple",
    "NanbeigeForCausalLM": "nanbeige",
    "NeoBERT": "neo-bert",
    "OpenELMForCausalLM": "openelm",
    "PLMForCausalLM": "plm",
    "PLaMo2ForCausalLM": "plamo2",
    "PLaMo3ForCausalLM": "plamo3",
    "Plamo2ForCausalLM": "plamo2",
    "Plamo3ForCausalLM": "plamo3",
    "PhiMoEForCausalLM": "phimoe",
    "PhimoeForCausalLM": "phimoe",
    "PlamoForCausalLM": "plamo",
    "RWKV6Qwen2ForCausalLM": "rwkv6qwen2",
    "RWKV7ForCausalLM": "rwkv7",
    "Rwkv6ForCausalLM": "rwkv6",
    "Rwkv7ForCausalLM": "rwkv7",
    "RwkvHybridForCausalLM": "arwkv7",
    "SmallThinkerForCausalLM": "smallthinker",
    "Spark2_5ForCausalLM": "spark2_5",
    "T5EncoderModel": "t5encoder",
    "TalkieForCausalLM": "talkie",
    "BailingMoeV3ForCausalLM": "bailingmoe3",
    "ChameleonForConditionalGeneration": "chameleon",
    "DeepseekV4ForCausalLM": "deepseek4",
    "Dots3NoteForCausalLM": "dots3note",
    "DreamModel": "dream",
    "Eagle3LlamaForCausalLM": "eagle3",
    "GPTJForCausalLM": "gptj",
    "Gemma4AssistantForCausalLM": "gemma4-assistant",
    "Glm5NextForConditionalGeneration": "glm5-next",
    "GraniteSwitchForCausalLM": "graniteswitch",
    "GroveMoeForCausalLM": "grovemoe",
    "HYV4ForCausalLM": "hy_v4",
    "KimiK3ForConditionalGeneration": "kimi-k3",
    "LLaDAMoEModelLM": "llada-moe",
    "LLaDAModelLM": "llada",
    "LlamaForCausalLMEagle3": "eagle3",
    "MiniMaxM1ForCausalLM": "minimax-01",
    "MiniMaxM3SparseForCausalLM": "minimax-m3",
    "MiniMaxText01ForCausalLM": "minimax-01",
    "Qwen4ExpForCausalLM": "qwen4exp",
    "RND1": "rnd1",
    "T5ForConditionalGeneration": "t5",
    "MT5ForConditionalGeneration": "t5",
    "UMT5ForConditionalGeneration": "t5",
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
    return f"{architecture} in GGUF: {_REASONS.get(architecture, _NOT_WRITTEN)}"
