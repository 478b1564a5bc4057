"""GGUF's keys from the settings of config.json: those that mean the same in every family.

Facts from the configurations of `transformers` and the conversion scripts of llama.cpp b11434.
"""

import math
from collections.abc import Mapping

import numpy as np

from edgellm.convert.settings import Settings
from edgellm.gguf_loader import NewValue

Keys = dict[str, NewValue]

# Under which names settings stand; written where one is there.
_INTEGERS: Mapping[str, tuple[str, ...]] = {
    "feed_forward_length": ("intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim"),
    "attention.head_count_kv": ("num_key_value_heads", "n_head_kv", "num_kv_heads"),
    "expert_count": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "expert_used_count": ("num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_top_k"),
    "expert_feed_forward_length": ("moe_intermediate_size",),
    "expert_shared_feed_forward_length": ("shared_expert_intermediate_size",),
    "expert_shared_count": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    "leading_dense_block_count": ("first_k_dense_replace", "num_dense_layers"),
    "vocab_size": ("vocab_size",),
}
_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "attention.layer_norm_rms_epsilon": ("rms_norm_eps", "norm_eps"),
    "attention.layer_norm_epsilon": (
        "layer_norm_eps",
        "layer_norm_epsilon",
        "norm_epsilon",
        "layernorm_epsilon",
    ),
    "expert_weights_scale": ("routed_scaling_factor",),
}
_CAPS = ("attn_logit_softcapping", "final_logit_softcapping")  # null: none
CONTEXT = (
    *("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length"),
    *("max_sequence_length", "model_max_length", "max_length"),
)
_YARN = {
    "extrapolation_factor": "yarn_ext_factor",
    "beta_fast": "yarn_beta_fast",
    "beta_slow": "yarn_beta_slow",
}


def common(s: Settings) -> Keys:
    """Keys that every architecture may have, without its name in front."""
    keys: Keys = {
        "block_count": s.layers,
        "context_length": s.integer(*CONTEXT),
        "embedding_length": s.hidden_size,
        "attention.head_count": s.heads,
    }
    for key, names in _INTEGERS.items():
        whole = s.optional_integer(*names)
        if whole is not None:
            keys[key] = whole
    for key, names in _NUMBERS.items():
        number = s.optional_number(*names)
        if number is not None:
            keys[key] = number
    for name in _CAPS:
        if s.has(name):
            keys[name] = s.number(name, 0.0)
    if s.value("norm_topk_prob") is not None:
        keys["expert_weights_norm"] = s.flag("norm_topk_prob")
    return keys


def heads(s: Settings) -> Keys:
    """The width of a head, its rotated part, and how positions become angles."""
    keys: Keys = {
        "attention.key_length": s.head_dim,
        "attention.value_length": s.head_dim,
    }
    return keys | rotary(s)


def decoder(s: Settings) -> Keys:
    """What a decoder with attention has."""
    return common(s) | heads(s)


def windows(s: Settings) -> Keys:
    """Layers that see a sliding window: those that are told, else all."""
    size = s.optional_integer("sliding_window")
    if not size:
        return {}
    kinds = s.items("layer_types")[: s.layers]
    windowed = [kind == "sliding_attention" for kind in kinds] or [True] * s.layers
    return {
        "attention.sliding_window": size,
        "attention.sliding_window_pattern": np.array(windowed, np.bool_),
        **local_base(s),
    }


def local_base(s: Settings) -> Keys:
    """Layers with a window rotate by a base of their own."""
    local = s.group("rope_parameters").group("sliding_attention").optional_number("rope_theta")
    local = local or s.optional_number("rope_local_base_freq", "swa_rope_theta")
    return {"rope.freq_base_swa": local} if local else {}


def check_alibi(s: Settings) -> None:
    """GGUFError where a family with biases by distance says that positions are told otherwise."""
    name = "position_embedding_type"
    if s.text(name) not in (None, "alibi"):
        raise s.wrong(name, s.text(name), "alibi, as the family has it")


def rotary(s: Settings, dim: int | None = None) -> Keys:
    """How positions become angles. dim: of a head that is rotated, if no share of it."""
    base = s.rope.optional_number("rope_theta")
    if base is None:
        base = s.optional_number("rope_theta", "rotary_emb_base", "rotary_base")
    return {
        "rope.dimension_count": dim or s.rotary_dim,
        "rope.freq_base": base or 10000.0,
        **_scaling(s),
    }


def _scaling(s: Settings) -> Keys:
    kind, rope = s.rope_kind, s.rope
    if kind in ("default", "llama3", "mrope", "proportional"):
        return {}
    if kind in ("su", "longrope"):
        return _long_rope(s)
    if kind not in ("linear", "yarn", "dynamic"):
        raise s.wrong("rope_scaling", kind, "linear, dynamic, yarn, longrope or llama3")
    factor = rope.optional_number("factor") or s.integer(*CONTEXT) / trained_context(s)
    keys: Keys = {"rope.scaling.type": kind, "rope.scaling.factor": factor}
    if kind == "dynamic":
        return keys | {"rope.scaling.original_context_length": s.integer(*CONTEXT)}
    if kind == "yarn":
        keys["rope.scaling.original_context_length"] = trained_context(s)
        for name, key in _YARN.items():
            given = rope.optional_number(name)
            if given is not None:
                keys[f"rope.scaling.{key}"] = given
        own = _sharpening(factor)  # GGUF's magnitude comes on top of it
        magnitude = _yarn_magnitude(s)
        if not math.isclose(magnitude, own, rel_tol=1e-9):
            keys["rope.scaling.attn_factor"] = magnitude / own
    return keys


def _yarn_magnitude(s: Settings) -> float:
    """What cosines and sines are multiplied with. Source: `transformers`, rope utilities."""
    rope = s.rope
    factor = rope.optional_number("factor") or s.integer(*CONTEXT) / trained_context(s)
    given = rope.optional_number("attention_factor")
    if given is not None:
        return given
    own, all_dims = rope.optional_number("mscale"), rope.optional_number("mscale_all_dim")
    if own and all_dims:
        return _sharpening(factor, own) / _sharpening(factor, all_dims)
    return _sharpening(factor)


def log_multiplied(s: Settings, keys: Keys, multiplier: float) -> Keys:
    """With yarn's multiplier, which takes the place of its own magnitude."""
    magnitude = _yarn_magnitude(s)
    rest = {key: value for key, value in keys.items() if key != "rope.scaling.attn_factor"}
    if not math.isclose(magnitude, 1.0, rel_tol=1e-9):
        rest["rope.scaling.attn_factor"] = magnitude
    return rest | {"rope.scaling.yarn_log_multiplier": multiplier}


def _sharpening(factor: float, multiplier: float = 1.0) -> float:
    """Source: Peng et al. 2023 (yarn), DeepSeek-V2's code."""
    return 1 + 0.1 * multiplier * math.log(max(factor, 1.0))


def trained_context(s: Settings) -> int:
    """The context before it was stretched."""
    name = "original_max_position_embeddings"
    given = s.rope.optional_number(name) or s.optional_number(name)
    return int(given or s.integer(*CONTEXT))


def _long_rope(s: Settings) -> Keys:
    """Long contexts by a factor for each pair, which are a tensor, and one for all angles.

    Source: Ding et al. 2024 (LongRoPE).
    """
    trained = trained_context(s)
    growth = s.rope.optional_number("factor") or s.integer(*CONTEXT) / trained
    factor = s.rope.optional_number("attention_factor")
    if factor is None:
        factor = math.sqrt(1 + math.log(growth) / math.log(trained)) if growth > 1 else 1.0
    return {
        "rope.scaling.type": "longrope",
        "rope.scaling.original_context_length": trained,
        "rope.scaling.attn_factor": factor,
    }


def frequency_divisors(s: Settings) -> dict[str, np.ndarray]:
    """Tensors that rotary frequencies are divided by, by name; none where all rotate as usual."""
    if s.rope_kind == "llama3":
        return {"rope_freqs.weight": _llama3_divisors(s)}
    if s.rope_kind not in ("su", "longrope"):
        return {}
    factors = {}
    for name in ("long", "short"):
        values = s.rope.items(f"{name}_factor")
        try:
            factors[f"rope_factors_{name}.weight"] = np.array(values, np.float32)
        except (TypeError, ValueError):
            raise s.wrong(f"{name}_factor", values, "a list of numbers") from None
        if len(values) != s.rotary_dim // 2:
            raise s.wrong(f"{name}_factor", values, f"a list of {s.rotary_dim // 2} numbers")
    return factors


def _llama3_divisors(s: Settings) -> np.ndarray:
    """Waves longer than the trained context are stretched by `factor`, short ones are not, and
    between the two bounds it goes smoothly. Source: Llama 3.1's published code.
    """
    rope, dim = s.rope, s.rotary_dim
    factor = rope.number("factor", 8.0)
    low, high = rope.number("low_freq_factor", 1.0), rope.number("high_freq_factor", 4.0)
    trained = rope.number("original_max_position_embeddings", 8192)
    base = float(str(rotary(s)["rope.freq_base"]))
    frequencies = base ** -(np.arange(0, dim, 2, dtype=np.float64) / dim)
    waves = trained * frequencies / (2 * math.pi)  # in the trained context
    smooth = np.clip((waves - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)
