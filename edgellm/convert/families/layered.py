"""Families whose layers have heads and widths of their own, by code beside their weights."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from edgellm.convert.families.family import PAIRS, Family
from edgellm.convert.keys import Keys, decoder
from edgellm.convert.moves import Named, gate_and_up, rotated_pairs
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Weight, reordered


def _deci(s: Settings) -> Keys:
    """Heads and widths of each layer, where they differ: one without heads does not attend, one
    with heads of queries alone is a matrix. Source: Bercovich et al. 2024 (Puzzle)."""
    blocks = s.groups("block_configs")
    if not blocks:
        heads = s.integers("num_key_value_heads_per_layer")
        return decoder(s) | (
            {"attention.head_count_kv": np.array(heads, np.uint32)} if heads else {}
        )
    if len(blocks) != s.layers:
        raise s.wrong("block_configs", len(blocks), f"{s.layers}, one for each layer")
    shares = [block.group("attention").optional_integer("n_heads_in_group") for block in blocks]
    is_matrix = [block.group("attention").flag("replace_with_linear") for block in blocks]
    factors = [block.group("ffn").number("ffn_mult", 0.0) for block in blocks]
    widths = [int(2 * factor * s.hidden_size / 3) for factor in factors]
    return decoder(s) | {
        "attention.head_count": np.array(
            [s.heads if share or own else 0 for share, own in zip(shares, is_matrix, strict=True)],
            np.uint32,
        ),
        "attention.head_count_kv": np.array(
            [s.heads // share if share else 0 for share in shares], np.uint32
        ),
        "feed_forward_length": np.array([up_to(width, 256) for width in widths], np.uint32),
    }


def up_to(width: int, multiple: int) -> int:
    """The next multiple from `width` on."""
    return -(width // -multiple) * multiple


def _paired(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Rows of queries or keys in pairs, of as many heads as there are."""
    if weight.rows % s.head_dim:
        raise weight.wrong(f"expected heads of {s.head_dim} rows")
    order = rotated_pairs(weight.rows, weight.rows // s.head_dim)
    yield name, reordered(weight, order, weight.shape)


def _openelm_widths(s: Settings) -> list[int]:
    multiple = s.optional_integer("ffn_dim_divisor") or 256
    wanted = [factor * s.hidden_size for factor in s.numbers("ffn_multipliers")]
    widths = [max(multiple, int(w + multiple / 2) // multiple * multiple) for w in wanted]
    return [w + multiple * (w < 0.9 * asked) for w, asked in zip(widths, wanted, strict=True)]


def _openelm(s: Settings) -> Keys:
    """Heads and widths grow with the layers. Source: Mehta et al. 2024 (OpenELM)."""
    dim = s.integer("head_dim")
    heads, kv_heads = s.integers("num_query_heads"), s.integers("num_kv_heads")
    for name, given in (("num_query_heads", heads), ("num_kv_heads", kv_heads)):
        if len(given) != s.layers:
            raise s.wrong(name, given, f"a number for each of {s.layers} layers")
    return {
        "block_count": s.layers,
        "context_length": s.integer("max_context_length"),
        "embedding_length": s.hidden_size,
        "feed_forward_length": np.array(_openelm_widths(s), np.uint32),
        "attention.head_count": np.array(heads, np.uint32),
        "attention.head_count_kv": np.array(kv_heads, np.uint32),
        "attention.key_length": dim,
        "attention.value_length": dim,
        "attention.layer_norm_rms_epsilon": 1e-6,  # in the model's code
        "rope.dimension_count": dim,
        "rope.freq_base": s.number("rope_freq_constant", 10000.0),
        "vocab_size": s.integer("vocab_size"),
    }


def _openelm_sizes(config: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "num_hidden_layers": config.get("num_transformer_layers"),
        "tie_word_embeddings": config.get("share_input_output_layers", True),
    }


ROWS: Mapping[str, Family] = {
    "DeciLMForCausalLM": Family("deci", _deci, dict.fromkeys(PAIRS, _paired)),
    "OpenELMForCausalLM": Family(
        "openelm",
        _openelm,
        {r"ffn\.proj_1\.weight$": gate_and_up("{layer}.ffn_gate.weight", "{layer}.ffn_up.weight")},
        implied=_openelm_sizes,
    ),
}
