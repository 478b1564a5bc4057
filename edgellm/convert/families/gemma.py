"""Gemma's models: norms that are stored less one, until Gemma 3n."""

from collections.abc import Mapping
from math import inf
from statistics import NormalDist

import numpy as np

from edgellm.convert.families.dense import INNER, VISION
from edgellm.convert.families.family import TIED, Family
from edgellm.convert.keys import Keys, decoder, local_base, windows
from edgellm.convert.moves import Named, as_named, one_more
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Weight, from_array, padded

_NORMS = {r"norm\.weight$": one_more}


def _gemma2(s: Settings) -> Keys:
    window = {"attention.sliding_window": s.integer("sliding_window")}
    return decoder(s) | _scale(s) | (windows(s) if s.items("layer_types") else window)


def _scale(s: Settings) -> Keys:
    """Of scores: not by the width of a head."""
    width = s.optional_number("query_pre_attn_scalar")
    return {"attention.scale": width**-0.5} if width else {}


def _gemma3(s: Settings) -> Keys:
    keys = decoder(s) | _scale(s)
    if s.optional_integer("sliding_window_pattern") != 1:
        keys |= windows(s) if s.items("layer_types") else _gemma2(s)
    return keys | local_base(s)


def _embedding(s: Settings) -> Keys:
    return _gemma3(s) | {"attention.causal": False}


def _gemma3n(s: Settings) -> Keys:
    """Of gates a share is left out, which is told as standard deviations above the mean."""
    keys = decoder(_one_width(s)) | windows(s)
    shares = s.numbers("activation_sparsity_pattern") or [0.0] * s.layers
    deviations = [NormalDist().inv_cdf(share) if share > 0 else -inf for share in shares]
    return keys | {
        "altup.active_idx": s.optional_integer("altup_active_idx") or 0,
        "altup.num_inputs": s.integer("altup_num_inputs"),
        "embedding_length_per_layer_input": s.integer("hidden_size_per_layer_input"),
        "attention.shared_kv_layers": s.optional_integer("num_kv_shared_layers") or 0,
        "activation_sparsity_scale": np.array(deviations, np.float32),
    }


def _gemma4(s: Settings) -> Keys:
    """Heads of layers that see all are wider, and have fewer of keys. Layers at the end share keys,
    and may have blocks twice as wide."""
    windowed = [kind == "sliding_attention" for kind in s.items("layer_types")]
    own = s.layers - (s.optional_integer("num_kv_shared_layers") or 0)
    width, wide = s.integer("intermediate_size"), s.flag("use_double_wide_mlp")
    few = _of_full_layers(s, "num_global_key_value_heads", "num_key_value_heads") or s.kv_heads
    keys = decoder(s) | windows(s)
    keys |= {
        "attention.key_length": _global_head_dim(s),
        "attention.value_length": _global_head_dim(s),
        "attention.key_length_swa": s.head_dim,
        "attention.value_length_swa": s.head_dim,
        "attention.head_count_kv": np.array(
            [s.kv_heads if local else few for local in windowed], np.uint32
        ),
        "attention.shared_kv_layers": s.layers - own,
        "embedding_length_per_layer_input": s.optional_integer("hidden_size_per_layer_input") or 0,
        "feed_forward_length": np.array(
            [2 * width if wide and i >= own else width for i in range(s.layers)], np.uint32
        ),
        "rope.dimension_count": _global_head_dim(s),
        "rope.dimension_count_swa": s.head_dim,
    }
    used = s.optional_integer("top_k_experts")
    return keys | ({"expert_used_count": used} if used else {})


def _of_full_layers(s: Settings, name: str, each: str) -> int | None:
    """A number of layers that see all: under its name, or layer by layer."""
    given = s.optional_integer(name)
    if given:
        return given
    layers = s.group("per_layer_config")
    found = (layers.group(str(i)).optional_integer(each) for i in range(s.layers))
    return next((number for number in found if number), None)


def _global_head_dim(s: Settings) -> int:
    return _of_full_layers(s, "global_head_dim", "head_dim") or s.head_dim


def _unrotated(s: Settings) -> dict[str, Weight]:
    """In layers that see all, a share of the pairs is rotated: others turn too slowly to count."""
    dim = _global_head_dim(s)
    if s.rope_kind != "proportional":
        raise s.wrong("rope_type", s.rope_kind, "proportional in layers that see all")
    rotated = int(dim * s.rotary_share("partial_rotary_factor") / 2)
    divisors = np.array([1.0] * rotated + [1e30] * (dim // 2 - rotated), np.float32)
    return {"rope_freqs.weight": from_array("rope_freqs.weight", divisors)}


def _as_many_tokens(name: str, weight: Weight, s: Settings) -> list[Named]:
    """Tokens of images and sound have no row."""
    return [(name, padded(weight, max(weight.rows, s.integer("vocab_size"))))]


def _one_width(s: Settings) -> Settings:
    """Settings in which feed-forward blocks have one width, which all layers share."""
    widths = set(s.integers("intermediate_size"))
    if not widths:
        return s
    if len(widths) != 1:
        raise s.wrong("intermediate_size", sorted(widths), "one width for all layers")
    return s.with_values(intermediate_size=widths.pop())


_GEMMA3_DEFAULTS: Mapping[str, object] = {
    **{"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208},
    **{"max_position_embeddings": 131072, "sliding_window": 4096, "rope_theta": 1e6},
    **{"rms_norm_eps": 1e-6, "tie_word_embeddings": True},
}
_gemma3_row = Family(
    "gemma3", _gemma3, _NORMS, renames=INNER, left=VISION, defaults=_GEMMA3_DEFAULTS
)
_PER_LAYER = {r"embed_tokens_per_layer\.weight$": _as_many_tokens}
_3N = {
    **_PER_LAYER,
    r"correct_output_scale$": as_named("{layer}.altup_correct_scale.weight"),
}
_GEMMA4 = {
    **_PER_LAYER,
    r"\.layer_scalar$": as_named("{layer}.layer_output_scale.weight"),
    r"router\.scale$": as_named("{layer}.ffn_gate_inp.scale"),
    r"router\.per_expert_scale$": as_named("{layer}.ffn_down_exps.scale"),
    r"experts\.gate_up_proj(\.weight)?$": as_named("{layer}.ffn_gate_up_exps.weight"),
    r"experts\.down_proj(\.weight)?$": as_named("{layer}.ffn_down_exps.weight"),
}
_OTHER_SENSES = (*VISION, r"^(model\.)?(audio_tower|embed_audio|embed_vision)\.")
_gemma4_row = Family(
    "gemma4",
    _gemma4,
    _GEMMA4,
    INNER,
    _OTHER_SENSES,
    defaults=TIED,
    extra=_unrotated,
    merges_over_characters=True,
)
_gemma3n_row = Family(
    "gemma3n",
    _gemma3n,
    _3N,
    INNER,
    _OTHER_SENSES,
    defaults=TIED,
)

ROWS: Mapping[str, Family] = {
    "GemmaForCausalLM": Family("gemma", moves=_NORMS, defaults=TIED),
    "Gemma2ForCausalLM": Family("gemma2", _gemma2, _NORMS, defaults=TIED),
    "Gemma3ForCausalLM": _gemma3_row,
    "Gemma3ForConditionalGeneration": _gemma3_row,
    "Gemma3TextModel": Family(
        "gemma-embedding",
        _embedding,
        _NORMS,
        {r"^(?!model\.)": "model."},
        defaults=_GEMMA3_DEFAULTS,
    ),
    "Gemma4ForCausalLM": _gemma4_row,
    "Gemma4ForConditionalGeneration": _gemma4_row,
    "Gemma3nForCausalLM": _gemma3n_row,
    "Gemma3nForConditionalGeneration": _gemma3n_row,
}
