"""Models whose layers keep a state instead of keys and values, all or some of them."""

from collections.abc import Mapping

from edgellm.models.architecture import (
    Architecture,
    divided_by_logit_scale,
    unless_switched_off,
)

VALUE_MIX_OF_THE_FIRST_LAYER = tuple(f"time_mix_v{i}.weight" for i in range(3))

ROWS: Mapping[str, Architecture] = {
    "arwkv7": Architecture(rope=None, unused=VALUE_MIX_OF_THE_FIRST_LAYER),
    "bailingmoe3": Architecture(
        rope="interleaved",
        sections_split=True,
        gating="sigmoid",
        absent=("attn_q.bias", "attn_k.bias", "attn_v.bias"),
    ),
    "falcon-h1": Architecture(rope="split", absent=("attn_output.bias", "rope_freqs.weight")),
    "granitehybrid": Architecture(
        rope="interleaved",
        rotates=unless_switched_off,
        logit_factor=divided_by_logit_scale,
        normalize_gates=True,
    ),
    "jamba": Architecture(rope=None),
    "kimi-linear": Architecture(
        rope=None,
        gating="sigmoid",
        normalize_gates=True,
        absent=("attn_q.bias", "attn_k.bias", "attn_v.bias"),
    ),
    "lfm2": Architecture(rope="split", output_norm="token_embd_norm", all_windowed=True),
    "lfm2moe": Architecture(
        rope="split", output_norm="token_embd_norm", gating="sigmoid", normalize_gates=True
    ),
    "mamba": Architecture(rope=None, residual="single"),
    "mamba2": Architecture(rope=None, residual="single"),
    "minimax-01": Architecture(
        rope="split", residual="normed_inputs", normalize_gates=True, experts_full_width=True
    ),
    "nemotron_h": Architecture(rope=None, residual="single", activation="relu2", gated=False),
    "nemotron_h_moe": Architecture(
        rope=None, residual="single", activation="relu2", gated=False, gating="sigmoid"
    ),
    "plamo2": Architecture(rope="split"),
    "qwen35": Architecture(rope="split", gated_queries=True, key_heads="tiled", mtp_reads="hidden"),
    "qwen35moe": Architecture(
        rope="split",
        gated_queries=True,
        key_heads="tiled",
        normalize_gates=True,
        mtp_reads="hidden",
    ),
    "qwen3next": Architecture(
        rope="split",
        gated_queries=True,
        normalize_gates=True,
        mtp_reads="hidden",
        unused=("ssm_in.weight", "ssm_in.scale"),  # the same as attn_qkv and attn_gate
    ),
    "rwkv6": Architecture(
        rope=None,
        norm="layer",
        ffn_norm="attn_norm_2",
        unused=tuple(f"time_mix_lerp_{part}.weight" for part in "wkvrg"),  # the same as the fused
    ),
    "rwkv6qwen2": Architecture(rope=None),
    "rwkv7": Architecture(
        rope=None, norm="layer", ffn_norm="attn_norm_2", unused=VALUE_MIX_OF_THE_FIRST_LAYER
    ),
}
