"""Decoders with a mixture of experts, with latent attention, or with both."""

from collections.abc import Mapping
from dataclasses import replace

from edgellm.models.architecture import Architecture, every_layer
from edgellm.models.families import dense

ROWS: Mapping[str, Architecture] = {
    "bailingmoe": Architecture(rope="interleaved"),
    "bailingmoe2": Architecture(rope="split", gating="sigmoid"),
    "dbrx": Architecture(
        rope="split", norm="layer", ffn_norm="attn_output_norm", normalize_gates=True
    ),
    "deepseek": Architecture(rope="interleaved"),
    "deepseek2": Architecture(rope="interleaved"),
    "dots1": Architecture(rope="split", gating="sigmoid"),
    "ernie4_5-moe": Architecture(
        rope="interleaved", normalize_gates=True, absent=("attn_output.bias",)
    ),
    "glm4moe": Architecture(rope="split", gating="sigmoid"),
    "gpt-oss": Architecture(
        rope="split",
        yarn_truncate=False,
        window_period=2,
        activation="swiglu_clamped",
        activation_alpha=1.702,
        activation_limit=7.0,
        gating="softmax_selected",
    ),
    "granitemoe": replace(dense.ROWS["granite"], rotates=every_layer),
    "hunyuan-moe": Architecture(rope="split", qk_norm_last=True, normalize_gates=True),
    "minicpm3": replace(dense.ROWS["minicpm"], rope="split"),
    "minimax-m2": Architecture(rope="split", gating="sigmoid", normalize_gates=True),
    "mistral4": Architecture(rope="interleaved"),
    "olmoe": Architecture(rope="split"),
    "phimoe": Architecture(rope="split", normalize_gates=True),
    "plm": Architecture(rope="interleaved", activation="relu2", gated=False),
    "qwen2moe": Architecture(rope="split", experts_share_width=True),
    "qwen3moe": Architecture(rope="split", normalize_gates=True, experts_share_width=True),
    "qwen3vlmoe": Architecture(rope="split", normalize_gates=True, experts_share_width=True),
}
