"""Decoders of the kind of Llama: rotated positions, gated feed-forward blocks, no experts."""

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from edgellm.convert.families.family import PAIRS, TIED, Family
from edgellm.convert.keys import Keys, decoder, log_multiplied, windows
from edgellm.convert.moves import (
    as_named,
    by_group_apart,
    in_turn,
    one_more,
    rounded_to_three,
    split_keys,
    split_queries,
    zero_left_out,
)
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Weight

VISION = (r"^(model\.)?(vision_tower|multi_modal_projector|visual|vision_model)\.",)
INNER = {
    r"^language_model\.lm_head\.": "lm_head.",
    r"^(model\.)?language_model\.(model\.)?": "model.",
}


def windowed(s: Settings) -> Keys:
    """With the layers that see a window."""
    return decoder(s) | windows(s)


def qwen2(s: Settings) -> Keys:
    has_windows = s.flag("use_sliding_window") or "sliding_attention" in s.items("layer_types")
    return decoder(s) | (windows(s) if has_windows else {})


def with_sections(s: Settings) -> Keys:
    """How rotary dimensions are divided among text and images."""
    sections = s.rope.integers("mrope_section")
    return {"rope.dimension_sections": np.array([*sections, 0][:4], np.int32)} if sections else {}


def _qwen2vl(s: Settings) -> Keys:
    return qwen2(s) | with_sections(s)


def qwen3vl(s: Settings) -> Keys:
    return decoder(s) | with_sections(s) | {"n_deepstack_layers": 0}


def _mistral3_name(s: Settings) -> str:
    """Those whose queries grow with their position are an architecture of their own."""
    return "mistral3" if s.rope.value("llama_4_scaling_beta") is not None else "llama"


def ministral3(s: Settings) -> Keys:
    """Queries grow with their position. Source: Mistral AI 2025 (Ministral 3)."""
    keys = windowed(s)
    growth = s.rope.optional_number("llama_4_scaling_beta")
    if growth is not None:
        keys["attention.temperature_scale"] = growth
        keys = log_multiplied(s, keys, s.rope.number("mscale_all_dim", 1.0))
    return keys


def granite(s: Settings) -> Keys:
    """Factors of scores, embeddings and blocks; what logits are divided by."""
    names = {
        "attention.scale": "attention_multiplier",
        "embedding_scale": "embedding_multiplier",
        "residual_scale": "residual_multiplier",
        "logit_scale": "logits_scaling",
    }
    found = {key: s.optional_number(name) for key, name in names.items()}
    return decoder(s) | {key: value for key, value in found.items() if value}


def scales(s: Settings) -> Keys:
    """MiniCPM's factors. Source: Hu et al. 2024."""
    return {
        "embedding_scale": s.number("scale_emb", 1.0),
        "residual_scale": s.number("scale_depth", 1.0) / s.layers**0.5,
        "logit_scale": s.hidden_size / s.integer("dim_model_base"),
    }


def _minicpm(s: Settings) -> Keys:
    return decoder(s) | scales(s)


def _olmo(s: Settings) -> Keys:
    return decoder(s) | {"attention.layer_norm_epsilon": 1e-5} | clamp(s)


def clamp(s: Settings) -> Keys:
    """The largest magnitude of queries, keys and values."""
    largest = s.optional_number("clip_qkv")
    return {"attention.clamp_kqv": largest} if largest else {}


def _cohere(s: Settings) -> Keys:
    return decoder(s) | {"logit_scale": s.number("logit_scale", 1.0)}


def _cohere2(s: Settings) -> Keys:
    return _cohere(s) | windows(s)


def _activations(tensors: dict[str, Weight]) -> Keys:
    """What xIELU has learned, a number for each layer. Source: Huang and Schlag 2024."""
    found: dict[str, dict[int, float]] = {}
    for name in list(tensors):
        match = re.search(r"layers\.(\d+)\.mlp\.act_fn\.(\w+)$", name)
        if match:
            number = tensors.pop(name).floats(np.zeros(1, np.intp)).item()
            found.setdefault(match[2], {})[int(match[1])] = number
    return {
        f"xielu.{name}": np.array([values[i] for i in sorted(values)], np.float32)
        for name, values in found.items()
    }


def check_rotation(s: Settings) -> None:
    """Which layers rotate is the architecture's own where it is three of four."""
    rotated = s.items("no_rope_layers")
    if rotated and list(rotated) != [int(i % 4 != 3) for i in range(s.layers)]:
        raise s.wrong("no_rope_layers", rotated, "a layer without rotation in each four")


def _smollm3(s: Settings) -> Keys:
    check_rotation(s)
    return decoder(s)


def _nemotron(s: Settings) -> Keys:
    return decoder(s) | {"attention.layer_norm_epsilon": s.number("norm_eps", 1e-5)}


def hunyuan(s: Settings) -> Keys:
    """A longer context by a larger base. Source: Hunyuan's published code."""
    keys, alpha = decoder(s), s.rope.optional_number("alpha")
    if not alpha:
        return keys
    base, dim = float(str(keys["rope.freq_base"])), s.head_dim
    rest = {key: value for key, value in keys.items() if not key.startswith("rope.scaling")}
    return rest | {"rope.freq_base": base * alpha ** (dim / (dim - 2))}


def _hunyuan_vl(s: Settings) -> Keys:
    """A larger base by a factor that has a key, and dimensions divided among text and images."""
    alpha = s.rope.optional_number("alpha")
    sections = s.rope.integers("xdrope_section", "mrope_section")
    if not alpha or not sections:
        return hunyuan(s)
    base = {"rope_theta": s.rope.optional_number("rope_theta") or 10000.0}
    return decoder(s.with_values(rope_parameters=base, rope_scaling=None)) | {
        "rope.scaling.alpha": alpha,
        "rope.dimension_sections": np.array(sections, np.int32),
    }


def _glm4v(s: Settings) -> Keys:
    return decoder(s) | with_sections(s)


_llama = Family("llama", moves=PAIRS)
_baichuan_row = Family("baichuan", moves={r"self_attn\.W_pack\.": in_turn})
_mistral = Family("llama", windowed, PAIRS, INNER, VISION)
_ministral3_row = Family(_mistral3_name, ministral3, PAIRS, INNER, VISION)
# Those that see images have the halves of heads apart.
_GLM4V = {
    r"self_attn\.q_proj\.(weight|bias)$": split_queries,
    r"self_attn\.k_proj\.(weight|bias)$": split_keys,
}
_BITNET = {
    rf"\.{n}_sub_norm\.weight$": as_named(f"{{layer}}.{n}_sub_norm.weight") for n in ("attn", "ffn")
}


def _bitnet_name(s: Settings) -> str:
    """Microsoft's own has another activation, and another name."""
    return "bitnet-b1.58" if s.text("hidden_act") == "relu2" else "bitnet"


NO_OUTPUT_BIAS = {r"o_proj\.bias$": zero_left_out}
_ernie_row = Family("ernie4_5", moves=NO_OUTPUT_BIAS)
_glm4v_row = Family("glm4", _glm4v, _GLM4V, INNER, VISION)
_qwen2vl_row = Family("qwen2vl", _qwen2vl, {}, INNER, VISION)


def _without_output(row: Family) -> Family:
    """The same model without its matrix for logits, as embedding models are published."""
    return replace(
        row,
        renames={r"^(?!model\.)": "model."},
        implied=lambda config: {"tie_word_embeddings": True},
    )


ROWS: Mapping[str, Family] = {
    "LlamaModel": _without_output(_llama),
    "MistralModel": _without_output(_mistral),
    "Qwen2Model": _without_output(Family("qwen2", qwen2)),
    "Qwen3Model": _without_output(Family("qwen3", qwen2)),
    "LlamaForCausalLM": _llama,
    "Jais2ForCausalLM": Family("jais2"),
    "Ministral3ForCausalLM": _ministral3_row,
    "MistralForCausalLM": _mistral,
    "MinistralForCausalLM": _mistral,
    "CwmForCausalLM": _mistral,
    "Mistral3ForConditionalGeneration": _ministral3_row,
    "LlavaForConditionalGeneration": _mistral,
    "InternLM3ForCausalLM": _llama,
    "InternLM2ForCausalLM": Family(
        "internlm2", moves={r"attention\.wqkv\.": by_group_apart}, defaults={"rms_norm_eps": 1e-6}
    ),
    "ArceeForCausalLM": Family("arcee", moves=PAIRS),
    "ApertusForCausalLM": Family("apertus", learned=_activations),
    "BitNetForCausalLM": Family(_bitnet_name, moves=_BITNET, names_of=("bitnet",)),
    "BitnetForCausalLM": Family("bitnet", moves={r"_proj\.weight$": rounded_to_three}),
    "BaichuanForCausalLM": _baichuan_row,
    "BaiChuanForCausalLM": _baichuan_row,
    "CohereForCausalLM": Family("command-r", _cohere, defaults=TIED),
    "Cohere2ForCausalLM": Family("cohere2", _cohere2, {r"\.bias$": zero_left_out}, defaults=TIED),
    "Ernie4_5ForCausalLM": _ernie_row,
    "Ernie4_5_ForCausalLM": _ernie_row,
    "ExaoneForCausalLM": Family("exaone"),
    "Exaone4ForCausalLM": Family("exaone4", windowed),
    "GlmForCausalLM": Family("chatglm"),
    "Glm4ForCausalLM": Family("glm4"),
    "Glm4vForConditionalGeneration": _glm4v_row,
    "GlmOcrForConditionalGeneration": _glm4v_row,
    "GraniteForCausalLM": Family("granite", granite, PAIRS),
    "Exaone4_5_ForConditionalGeneration": Family("exaone4", windowed, {}, INNER, VISION),
    "HunYuanDenseV1ForCausalLM": Family("hunyuan-dense", hunyuan),
    "HunYuanVLForConditionalGeneration": Family(
        "hunyuan_vl", _hunyuan_vl, {}, INNER, (*VISION, r"^(model\.)?vit\.")
    ),
    "MiniCPMForCausalLM": Family("minicpm", _minicpm, PAIRS),
    "NemotronForCausalLM": Family("nemotron", _nemotron, {r"norm\.weight$": one_more}),
    "OlmoForCausalLM": Family("olmo", _olmo, PAIRS),
    "Olmo2ForCausalLM": Family("olmo2"),
    "Olmo3ForCausalLM": Family("olmo2", windowed),
    "PaddleOCRVLForConditionalGeneration": Family(
        "paddleocr", _glm4v, {}, INNER, (*VISION, r"^mlp_AR\.", r"^model\.projector\.")
    ),
    "Phi3ForCausalLM": Family("phi3", windowed),
    "Qwen2ForCausalLM": Family("qwen2", qwen2),
    "Qwen3ForCausalLM": Family("qwen3", qwen2),
    "SeedOssForCausalLM": Family("seed_oss"),
    "Qwen2VLForConditionalGeneration": _qwen2vl_row,
    "Qwen2_5_VLForConditionalGeneration": _qwen2vl_row,
    "Qwen3VLForConditionalGeneration": Family("qwen3vl", qwen3vl, {}, INNER, VISION),
    "SmolLM3ForCausalLM": Family("smollm3", _smollm3, PAIRS),
}
