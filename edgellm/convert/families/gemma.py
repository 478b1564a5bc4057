"""Gemma's models: norms that are stored less one, until Gemma 3n."""

from collections.abc import Mapping
from math import inf
from statistics import NormalDist

import numpy as np

from edgellm.convert.families.dense import INNER, VISION
from edgellm.convert.families.family import Family
from edgellm.convert.keys import Keys, decoder, windows
from edgellm.convert.moves import as_named, one_more
from edgellm.convert.settings import Settings

_NORMS = {r"norm\.weight$": one_more}
_TIED = {"tie_word_embeddings": True}


def _gemma2(s: Settings) -> Keys:
    return decoder(s) | {"attention.sliding_window": s.integer("sliding_window")}


def _gemma3(s: Settings) -> Keys:
    keys = decoder(s)
    if s.optional_integer("sliding_window_pattern") != 1:
        keys |= windows(s) if s.items("layer_types") else _gemma2(s)
    return keys | _local_base(s)


def _local_base(s: Settings) -> Keys:
    """Layers with a window rotate by a base of their own."""
    local = s.group("rope_parameters").group("sliding_attention").optional_number("rope_theta")
    local = local or s.optional_number("rope_local_base_freq")
    return {"rope.freq_base_swa": local} if local else {}


def _embedding(s: Settings) -> Keys:
    return _gemma3(s) | {"attention.causal": False}


def _gemma3n(s: Settings) -> Keys:
    """Of gates a share is left out, which is told as standard deviations above the mean."""
    keys = decoder(_one_width(s)) | windows(s) | _local_base(s)
    shares = s.items("activation_sparsity_pattern") or [0.0] * s.layers
    deviations = [NormalDist().inv_cdf(share) if share > 0 else -inf for share in shares]
    return keys | {
        "altup.active_idx": s.optional_integer("altup_active_idx") or 0,
        "altup.num_inputs": s.integer("altup_num_inputs"),
        "embedding_length_per_layer_input": s.integer("hidden_size_per_layer_input"),
        "attention.shared_kv_layers": s.optional_integer("num_kv_shared_layers") or 0,
        "activation_sparsity_scale": np.array(deviations, np.float32),
    }


def _one_width(s: Settings) -> Settings:
    """Settings in which feed-forward blocks have one width, which all layers share."""
    widths = set(s.items("intermediate_size"))
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
_3N = {r"correct_output_scale$": as_named("{layer}.altup_correct_scale.weight")}
_gemma3n_row = Family(
    "gemma3n",
    _gemma3n,
    _3N,
    INNER,
    (*VISION, r"^(model\.)?(audio_tower|embed_audio|embed_vision)\."),
    defaults=_TIED,
)

ROWS: Mapping[str, Family] = {
    "GemmaForCausalLM": Family("gemma", moves=_NORMS, defaults=_TIED),
    "Gemma2ForCausalLM": Family("gemma2", _gemma2, _NORMS, defaults=_TIED),
    "Gemma3ForCausalLM": _gemma3_row,
    "Gemma3ForConditionalGeneration": _gemma3_row,
    "Gemma3TextModel": Family(
        "gemma-embedding",
        _embedding,
        _NORMS,
        {r"^(?!model\.)": "model."},
        defaults=_GEMMA3_DEFAULTS,
    ),
    "Gemma3nForCausalLM": _gemma3n_row,
    "Gemma3nForConditionalGeneration": _gemma3n_row,
}
