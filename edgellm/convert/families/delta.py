"""Qwen's models with linear attention by the delta rule in three of four layers.

Source: Yang et al. 2024 (gated delta nets), as Qwen3-Next and Qwen3.5 have them.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from edgellm.convert.families.dense import INNER, VISION
from edgellm.convert.families.family import EXPERTS, Family
from edgellm.convert.keys import Keys, decoder
from edgellm.convert.moves import (
    Move,
    Named,
    as_named,
    decays,
    layer_of,
    one_more,
    then,
    without_ones,
)
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Indices, Weight, columns_reordered, joined, part, reordered

_SECTIONS = (11, 11, 10, 0)  # of rotary dimensions among text and images, unless settings say


def _delta_net(s: Settings) -> Keys:
    heads = s.integer("linear_num_value_heads")
    return decoder(s) | {
        "ssm.conv_kernel": s.integer("linear_conv_kernel_dim"),
        "ssm.state_size": s.integer("linear_key_head_dim"),
        "ssm.group_count": s.integer("linear_num_key_heads"),
        "ssm.time_step_rank": heads,
        "ssm.inner_size": s.integer("linear_value_head_dim") * heads,
        "full_attention_interval": s.optional_integer("full_attention_interval") or 4,
    }


def _with_sections(s: Settings) -> Keys:
    given = s.rope.integers("mrope_section") or _SECTIONS[:3]
    sections = np.array([*given, 0][:4], np.int32)
    return _delta_net(s) | {"rope.dimension_sections": sections}


def _by_key_head(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """For each head of keys its queries, keys, values and gates: queries, keys and values of all
    heads in one matrix, and the gates in another."""
    keys, values = s.integer("linear_key_head_dim"), s.integer("linear_value_head_dim")
    heads = s.integer("linear_num_key_heads")
    shared = s.integer("linear_num_value_heads") // heads * values
    rows = np.arange(weight.rows).reshape(heads, -1)
    if rows.shape[1] != 2 * (keys + shared):
        raise weight.wrong(f"expected {heads} heads of {2 * (keys + shared)} rows")
    q, k, v, gates = np.split(rows, np.cumsum([keys, keys, shared]), axis=1)
    mixed = np.concatenate([part.reshape(-1) for part in (q, k, v)])
    layer = layer_of(name)
    yield f"{layer}.attn_qkv.weight", reordered(weight, mixed)
    yield f"{layer}.attn_gate.weight", reordered(weight, gates.reshape(-1))


def _tiles(s: Settings, width: int) -> Indices:
    """Heads of values in turn for each head of keys, where they lie together for it."""
    keys, values = s.integer("linear_num_key_heads"), s.integer("linear_num_value_heads")
    return np.arange(values * width).reshape(keys, -1, width).swapaxes(0, 1).reshape(-1)


def _tiled(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Rows of heads of values."""
    width = weight.rows // s.integer("linear_num_value_heads")
    yield name, reordered(weight, _tiles(s, width), weight.shape)


def _tiled_values(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Rows of queries and keys, which stay, and of values."""
    first = 2 * s.integer("linear_num_key_heads") * s.integer("linear_key_head_dim")
    values = part(weight, first, weight.shape[0] - first)
    for _, tiled in _tiled(name, values, s):
        yield name, joined([part(weight, 0, first), tiled])


def _tiled_columns(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Columns of heads of values."""
    yield name, columns_reordered(weight, _tiles(s, s.integer("linear_value_head_dim")))


_NORMS: Mapping[str, Move] = {
    r"linear_attn\.norm\.weight$": as_named("{layer}.ssm_norm.weight"),
    r"norm\.weight$": one_more,
}
_NEXT: Mapping[str, Move] = {
    r"\.A_log$": as_named("{layer}.ssm_a", decays),
    r"\.dt_bias$": as_named("{layer}.ssm_dt.bias"),
    r"conv1d\.weight$": without_ones,
    r"in_proj_qkvz\.weight$": _by_key_head,
    **_NORMS,
    **EXPERTS,
}
_QWEN35: Mapping[str, Move] = {
    r"\.A_log$": as_named("{layer}.ssm_a", then(decays, _tiled)),
    r"\.dt_bias$": as_named("{layer}.ssm_dt.bias", _tiled),
    r"conv1d\.weight$": then(without_ones, _tiled_values),
    r"in_proj_qkv\.weight$": as_named("{layer}.attn_qkv.weight", _tiled_values),
    r"in_proj_z\.weight$": as_named("{layer}.attn_gate.weight", _tiled),
    r"in_proj_a\.weight$": as_named("{layer}.ssm_alpha.weight", _tiled),
    r"in_proj_b\.weight$": as_named("{layer}.ssm_beta.weight", _tiled),
    r"linear_attn\.out_proj\.weight$": as_named("{layer}.ssm_out.weight", _tiled_columns),
    **_NORMS,
    **EXPERTS,
}
_qwen35 = Family("qwen35", _with_sections, _QWEN35, INNER, VISION)
_qwen35moe = Family("qwen35moe", _with_sections, _QWEN35, INNER, VISION)

ROWS: Mapping[str, Family] = {
    "Qwen3NextForCausalLM": Family("qwen3next", _delta_net, _NEXT, INNER, VISION),
    "Qwen3_5ForCausalLM": _qwen35,
    "Qwen3_5ForConditionalGeneration": _qwen35,
    "Qwen3_5MoeForCausalLM": _qwen35moe,
    "Qwen3_5MoeForConditionalGeneration": _qwen35moe,
}
