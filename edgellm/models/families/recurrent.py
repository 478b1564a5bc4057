"""Models whose layers keep a state instead of keys and values, all or some of them."""

from collections.abc import Mapping

from edgellm.models.architecture import (
    Architecture,
    divided_by_logit_scale,
    unless_switched_off,
)

ROWS: Mapping[str, Architecture] = {
    "falcon-h1": Architecture(rope="split", absent=("attn_output.bias", "rope_freqs.weight")),
    "granitehybrid": Architecture(
        rope="interleaved", rotates=unless_switched_off, logit_factor=divided_by_logit_scale
    ),
    "jamba": Architecture(rope=None),
    "lfm2": Architecture(rope="split", output_norm="token_embd_norm"),
    "mamba": Architecture(rope=None, residual="single"),
    "mamba2": Architecture(rope=None, residual="single"),
    "nemotron_h": Architecture(rope=None, residual="single", activation="relu2", gated=False),
    "plamo2": Architecture(rope="split"),
    "qwen35": Architecture(rope="split", gated_queries=True, key_heads="tiled"),
}
