"""The settings of a generation under llama.cpp's names, as its clients read them."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from edgellm.server import fields as f
from edgellm.types import SamplingParams

_DRAWN_SEED = 0xFFFFFFFF  # what llama.cpp writes where a seed is drawn
# Settings of llama.cpp that nothing here changes: some clients refuse an answer without them.
_FIXED: Mapping[str, Any] = {
    "n_discard": 0,
    "grammar_lazy": False,
    "grammar_triggers": [],
    "preserved_tokens": [],
    "chat_format": "Content-only",
    "reasoning_format": "none",
    "reasoning_in_content": False,
    "generation_prompt": "",
    "speculative.types": "none",
    "post_sampling_probs": False,
    "backend_sampling": False,
}


def generation_settings(params: SamplingParams, fields: f.Fields) -> dict[str, Any]:
    """fields: those of the request, for what is no sampling parameter."""
    return {
        **_FIXED,
        **asdict(params),
        "n_predict": -1 if params.max_tokens is None else params.max_tokens,
        "max_tokens": -1 if params.max_tokens is None else params.max_tokens,
        "seed": _DRAWN_SEED if params.seed is None else params.seed,
        "n_probs": params.logprobs or 0,
        "grammar": params.grammar or "",
        "logit_bias": _biases(params),
        "n_keep": f.read(fields, "n_keep", int, 0),
        "stream": f.read(fields, "stream", bool, False),
        "timings_per_token": f.read(fields, "timings_per_token", bool, False),
        "lora": f.objects(fields, "lora"),
    }


def _biases(params: SamplingParams) -> list[dict[str, Any]]:
    """A token that is banned has null: JSON has no infinity."""
    biases = params.logit_bias or {}
    return [
        {"token": token, "bias": None if bias is False or math.isinf(bias) else bias}
        for token, bias in biases.items()
    ]
