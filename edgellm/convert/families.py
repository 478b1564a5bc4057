"""The kinds of models that are converted: what their settings are called, and what becomes of
their tensors. A row for each name in `architectures` of config.json.

Facts from the models' code in `transformers` and the conversion scripts of llama.cpp b11434.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.convert.settings import Settings
from edgellm.gguf_loader import NewValue

Rows = npt.NDArray[np.intp]
Keys = dict[str, NewValue]


@dataclass(frozen=True)
class Family:
    """architecture: in GGUF. keys: further settings of it. pairs: whether rows of queries and keys
    are put in the order of rotated pairs. norm_shift: what norms lack in the checkpoint. nested:
    settings lie in `text_config`. left: tensors whose names begin so are no part of the text
    model. defaults: of settings that config.json may leave out."""

    architecture: str
    keys: Callable[[Settings], Keys] = field(default=lambda settings: {})
    pairs: bool = False
    norm_shift: float = 0.0
    nested: bool = False
    left: tuple[str, ...] = ()
    defaults: Mapping[str, int | float] = field(default_factory=dict)


def _llama(settings: Settings) -> Keys:
    return {
        "vocab_size": settings.integer("vocab_size"),
        "rope.dimension_count": settings.head_dim,
    }


def _gemma3(settings: Settings) -> Keys:
    if settings.optional_integer("sliding_window_pattern") == 1:
        return {}
    return {"attention.sliding_window": settings.integer("sliding_window")}


_GEMMA3: Mapping[str, int | float] = {
    **{"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208},
    **{"max_position_embeddings": 131072, "sliding_window": 4096, "rope_theta": 1e6},
    **{"rms_norm_eps": 1e-6, "tie_word_embeddings": True},
}
_VISION = tuple(
    f"{prefix}{part}."
    for prefix in ("", "model.")
    for part in ("vision_tower", "multi_modal_projector")
)

FAMILIES: Mapping[str, Family] = {
    "LlamaForCausalLM": Family("llama", _llama, pairs=True),
    "MistralForCausalLM": Family("llama", _llama, pairs=True),
    "Qwen2ForCausalLM": Family("qwen2"),
    "Qwen3ForCausalLM": Family("qwen3"),
    "Gemma3ForCausalLM": Family("gemma3", _gemma3, norm_shift=1.0, defaults=_GEMMA3),
    "Gemma3ForConditionalGeneration": Family(
        "gemma3", _gemma3, norm_shift=1.0, nested=True, left=_VISION, defaults=_GEMMA3
    ),
}


def rotated_pairs(rows: int, heads: int) -> Rows:
    """The order of a matrix's rows in which the two that are rotated together are neighbours.

    Checkpoints keep the first and second halves of a head apart; GGUF's llama does not.
    """
    return np.arange(rows).reshape(heads, 2, -1).swapaxes(1, 2).reshape(-1)


def settings_of(family: Family, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of config.json that is of the text model."""
    nested = config.get("text_config")
    if family.nested and isinstance(nested, dict):
        return {**config, **nested}
    return config
