"""Decoders without experts, and those whose experts need nothing more than what tensors tell."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgellm.models.architecture import (
    Architecture,
    by_pattern,
    divided_by_logit_scale,
    unless_switched_off,
)

if TYPE_CHECKING:
    from edgellm.models.config import ModelConfig


def root_of_hidden_size(config: "ModelConfig") -> float:
    """What embeddings are multiplied with."""
    return math.sqrt(config.hidden_size)


def _gemma2_attention_width(config: "ModelConfig") -> float:
    """The 27B model, the one of 46 layers, scales by hidden size per head."""
    is_27b = config.num_layers == 46
    return config.hidden_size / config.num_heads[0] if is_27b else config.head_dim


def _gemma3_attention_width(config: "ModelConfig") -> float:
    """The 27B model, the one of 62 layers, scales by hidden size per head."""
    is_27b = config.num_layers == 62
    return config.hidden_size / config.num_heads[0] if is_27b else config.head_dim


def _one(config: "ModelConfig") -> float:
    """Scores are not divided: norms of queries and keys keep them small."""
    return 1.0


def _square_of_head_dim(config: "ModelConfig") -> float:
    """Scores are divided by head_dim itself (maximal update parametrisation)."""
    return config.head_dim**2


def cohere_logit_factor(config: "ModelConfig") -> float:
    """The key says what to multiply with."""
    return config.logit_scale or 1.0


# Files of before the keys hold MiniCPM 2B: scale_emb, scale_depth and dim_model_base of its
# configuration. Source: Hu et al. 2024.
def _minicpm_embedding_factor(config: "ModelConfig") -> float:
    return config.embedding_scale or 12.0


def _minicpm_residual_factor(config: "ModelConfig") -> float:
    return config.residual_scale or 1.4 / math.sqrt(config.num_layers)


def _minicpm_logit_factor(config: "ModelConfig") -> float:
    return 1 / (config.logit_scale or config.hidden_size / 256)


def is_windowed(config: "ModelConfig", layer: int) -> bool:
    """Layers that see everything have no positions, where others have a window."""
    return config.windows[layer] is not None or not any(config.windows)


def always(config: "ModelConfig") -> bool:
    """In every model of the family."""
    return True


def only_windowed(config: "ModelConfig", layer: int) -> bool:
    """Layers that see everything have no positions."""
    return config.windows[layer] is not None


def not_every_fourth(config: "ModelConfig", layer: int) -> bool:
    """The last of each four layers has no positions. Source: Yang et al. 2025 (RNoPE)."""
    return layer % 4 != 3


def _baichuan_alibi(config: "ModelConfig") -> float:
    """The 13B models, of 40 layers, have biases instead of rotation; no key says so."""
    return config.max_alibi_bias or (8.0 if config.num_layers == 40 else 0.0)


def _is_baichuan_of_7b(config: "ModelConfig", layer: int) -> bool:
    """The 7B models, of 32 layers, rotate. No other size has rotation, and no key says so."""
    return config.num_layers == 32


def _bloom_alibi(config: "ModelConfig") -> float:
    return config.max_alibi_bias or 8.0


# Source: Ma et al. 2025 (BitNet b1.58 2B4T).
_BITNET_158 = Architecture(rope="split", activation="relu2")

ROPE_FACTORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")

ROWS: Mapping[str, Architecture] = {
    "llama": Architecture(rope="interleaved", normalize_gates=True),
    "apertus": Architecture(
        rope="split",
        xielu=True,
        gated=False,
        absent=("attn_q_norm.bias", "attn_k_norm.bias"),
    ),
    "baichuan": Architecture(rope="interleaved", rotates=_is_baichuan_of_7b, alibi=_baichuan_alibi),
    "bitnet": Architecture(rope="split", names_activation=True),
    **dict.fromkeys(("bitnet-b1.58", "bitnet-25"), _BITNET_158),  # Microsoft's own names
    "bloom": Architecture(
        rope=None, norm="layer", alibi=_bloom_alibi, activation="gelu_tanh", gated=False
    ),
    "chatglm": Architecture(rope="interleaved"),
    "codeshell": Architecture(rope="split", norm="layer", activation="gelu_tanh", gated=False),
    "cogvlm": Architecture(  # text
        rope="split",
        absent=("rope_freqs.weight",),
        unused=tuple(
            f"vis_{name}.weight" for name in ("attn_qkv", "attn_output", "gate", "up", "down")
        ),
    ),
    "cohere2": Architecture(
        rope="interleaved",
        rotates=is_windowed,
        window_period=4,
        norm="layer",
        residual="parallel",
        logit_factor=cohere_logit_factor,
    ),
    "command-r": Architecture(
        rope="interleaved", norm="layer", residual="parallel", logit_factor=cohere_logit_factor
    ),
    "deci": Architecture(rope="interleaved", may_skip=True),
    "ernie4_5": Architecture(rope="interleaved", absent=("attn_output.bias",)),
    "exaone": Architecture(rope="split"),
    "exaone4": Architecture(rope="split", rotates=is_windowed, pre_norm=False),
    "falcon": Architecture(
        rope="split", norm="layer", residual="parallel", activation="gelu_tanh", gated=False
    ),
    "gemma": Architecture(
        rope="split", embedding_factor=root_of_hidden_size, activation="gelu_tanh"
    ),
    "gemma2": Architecture(
        rope="split",
        local_rope_scaled=True,
        window_period=2,
        attention_width=_gemma2_attention_width,
        attention_softcap=50.0,
        final_softcap=30.0,
        embedding_factor=root_of_hidden_size,
        activation="gelu_tanh",
    ),
    "gemma3": Architecture(
        rope="split",
        local_rope=True,
        local_rope_base=10000.0,
        window_period=6,
        attention_width=_gemma3_attention_width,
        embedding_factor=root_of_hidden_size,
        final_softcap=0.0,
        activation="gelu_tanh",
    ),
    "gemma3n": Architecture(
        rope="split",
        local_rope=True,
        local_rope_base=10000.0,
        window_period=5,
        value_norm=True,
        attention_width=_one,
        final_softcap=30.0,
        embedding_factor=root_of_hidden_size,
        activation="gelu_tanh",
        own_kv_layers=20,
        per_layer_input_width=256,
        altup=True,
    ),
    "gemma4": Architecture(
        rope="split",
        local_rope=True,
        local_rope_base=10000.0,
        value_norm=True,
        values_from_keys=True,
        attention_width=_one,
        final_softcap=0.0,
        embedding_factor=root_of_hidden_size,
        activation="gelu_tanh",
        normalize_gates=True,
    ),
    "glm4": Architecture(rope="interleaved", sections_split=True, mtp_reads="hidden"),
    "gpt2": Architecture(rope=None, norm="layer", activation="gelu_tanh", gated=False),
    "gptneox": Architecture(
        rope="split", norm="layer", residual="by_key", activation="gelu_tanh", gated=False
    ),
    "granite": Architecture(
        rope="interleaved",
        rotates=unless_switched_off,
        logit_factor=divided_by_logit_scale,
        normalize_gates=True,
    ),
    "granite_swa": Architecture(
        rope="interleaved",
        rotates=by_pattern,
        logit_factor=divided_by_logit_scale,
        normalize_gates=True,
    ),
    "hrm_text": Architecture(rope="split", norm="plain_rms", output_norm=None, cycles=True),
    "hunyuan-dense": Architecture(rope="split", qk_norm_last=True),
    "hunyuan_vl": Architecture(rope="split", qk_norm_last=True, ntk_alpha=True),
    "internlm2": Architecture(rope="interleaved"),
    "jais": Architecture(rope=None, norm="layer", attention_width=_square_of_head_dim),
    "jais2": Architecture(rope="split", norm="layer", activation="relu2", gated=False),
    "maincoder": Architecture(rope="interleaved", qk_norm_last=True),
    "minicpm": Architecture(
        rope="interleaved",
        embedding_factor=_minicpm_embedding_factor,
        residual_factor=_minicpm_residual_factor,
        logit_factor=_minicpm_logit_factor,
        normalize_gates=True,
    ),
    "mistral3": Architecture(rope="interleaved", normalize_gates=True),
    "mpt": Architecture(
        rope=None,
        norm="layer",
        activation="gelu_tanh",
        gated=False,
        unused=("attn_k_norm.weight", "attn_k_norm.bias"),
    ),
    "muse-glimmer": Architecture(
        rope="interleaved",
        rotates=only_windowed,
        local_rope=True,
        window_period=4,
        plain_embedding_norm=True,
        post_norm_eps=1e-8,
        final_softcap=0.0,
        logit_factor=cohere_logit_factor,
    ),
    "nanbeige": Architecture(rope="interleaved"),
    "nemotron": Architecture(rope="split", norm="layer", activation="relu2", gated=False),
    "olmo": Architecture(rope="interleaved", norm="plain_layer"),
    "olmo2": Architecture(rope="split", local_rope=True, window_period=4, pre_norm=False),
    "openelm": Architecture(rope="split"),
    "orion": Architecture(rope="split", norm="layer"),
    "paddleocr": Architecture(rope="split"),  # text
    "pangu-embedded": Architecture(rope="split", absent=ROPE_FACTORS),
    "phi2": Architecture(
        rope="split", norm="layer", residual="parallel", activation="gelu_tanh", gated=False
    ),
    "phi3": Architecture(rope="split", all_windowed=True),
    "plamo": Architecture(rope="split", residual="parallel"),
    "plamo3": Architecture(rope="split", local_rope=True, local_rope_base=10000.0, window_period=8),
    "qwen": Architecture(rope="split", feed_forward_divisor=2),
    "qwen2": Architecture(rope="split"),
    # Text: all sections of positions are the same.
    "qwen2vl": Architecture(rope="split", absent=("output.bias",)),
    "qwen3": Architecture(rope="split", rank_pooling="last", classifier_softmax=True),
    "qwen3vl": Architecture(rope="split", rank_pooling="last", classifier_softmax=True),
    "refact": Architecture(
        rope=None,
        alibi=_bloom_alibi,
        absent=(
            *("attn_output.bias", "ffn_gate.bias", "ffn_up.bias", "ffn_down.bias"),
            "rope_freqs.weight",
        ),
    ),
    "seed_oss": Architecture(rope="split"),
    "smollm3": Architecture(rope="interleaved", rotates=not_every_fourth),
    "spark2_5": Architecture(rope="split", local_rope_scaled=True, activation="gelu_tanh"),
    "stablelm": Architecture(rope="split", norm="layer", residual="by_norm"),
    "starcoder": Architecture(rope=None, norm="layer", activation="gelu_tanh", gated=False),
    "starcoder2": Architecture(rope="split", norm="layer", activation="gelu_tanh", gated=False),
    "talkie": Architecture(
        rope="split",
        norm="plain_rms",
        plain_embedding_norm=True,
        adds_embedding=True,
        plain_qk_norm=always,
        logit_factor=cohere_logit_factor,
    ),
    "xverse": Architecture(rope="interleaved"),
    "arcee": Architecture(rope="interleaved", activation="relu2", gated=False),
}
