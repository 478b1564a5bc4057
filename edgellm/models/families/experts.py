"""Decoders with a mixture of experts."""

from collections.abc import Mapping

from edgellm.models.architecture import Architecture

ROWS: Mapping[str, Architecture] = {
    "gpt-oss": Architecture(
        rope="split",
        yarn_truncate=False,
        window_period=2,
        activation="swiglu_clamped",
        activation_alpha=1.702,
        activation_limit=7.0,
        gating="softmax_selected",
    ),
}
