"""What becomes of experts that families store in ways of their own."""

from collections.abc import Iterable, Mapping

from edgellm.convert.families.family import EXPERTS, PAIRS
from edgellm.convert.moves import (
    Move,
    Named,
    as_named,
    gate_and_up,
    turned,
    turned_gate_and_up,
)
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Weight, reshaped, transposed


def _of_experts(name: str, weight: Weight, s: Settings) -> list[Named]:
    """Experts one after another, with as many rows each."""
    count = s.group("ffn_config").integer("moe_num_experts")
    if weight.rows % count:
        raise weight.wrong(f"expected {count} experts")
    return [(name, reshaped(weight, (count, weight.rows // count, weight.columns)))]


def _of_experts_turned(name: str, weight: Weight, s: Settings) -> list[Named]:
    return [(new, transposed(one)) for new, one in _of_experts(name, weight, s)]


_GATES, _UPS = "{layer}.ffn_gate_exps.weight", "{layer}.ffn_up_exps.weight"
_DOWNS = "{layer}.ffn_down_exps.weight"


def _is_by_rows(weight: Weight, rows: int, columns: int) -> bool:
    """Qwen 3 VL's experts are stored by columns, unless they are saved anew; so are squares."""
    return weight.shape[-2:] == (rows, columns) and rows != columns


def _either_way_gate_and_up(name: str, weight: Weight, s: Settings) -> Iterable[Named]:
    rows = 2 * s.integer("moe_intermediate_size")
    split = gate_and_up if _is_by_rows(weight, rows, s.hidden_size) else turned_gate_and_up
    return split(_GATES, _UPS)(name, weight, s)


def _either_way_down(name: str, weight: Weight, s: Settings) -> Iterable[Named]:
    by_rows = _is_by_rows(weight, s.hidden_size, s.integer("moe_intermediate_size"))
    return as_named(_DOWNS, None if by_rows else turned)(name, weight, s)


GPT_OSS: Mapping[str, Move] = {
    r"self_attn\.sinks$": as_named("{layer}.attn_sinks.weight"),
    r"mlp\.router\.(weight|bias)$": lambda name, weight, s: as_named(
        f"{{layer}}.ffn_gate_inp.{name.rsplit('.', 1)[1]}"
    )(name, weight, s),
    r"experts\.gate_up_proj_bias$": gate_and_up(
        "{layer}.ffn_gate_exps.bias", "{layer}.ffn_up_exps.bias", interleaved=True
    ),
    r"experts\.down_proj_bias$": as_named("{layer}.ffn_down_exps.bias"),
    r"experts\.gate_up_proj$": turned_gate_and_up(_GATES, _UPS, interleaved=True),
    r"experts\.down_proj$": as_named(_DOWNS, turned),
    # Of MXFP4, whose rows are in order.
    r"experts\.gate_up_proj\.weight$": gate_and_up(_GATES, _UPS, interleaved=True),
    r"experts\.down_proj\.weight$": as_named(_DOWNS),
}
GRANITE_MOE: Mapping[str, Move] = {
    **PAIRS,
    r"block_sparse_moe\.input_linear\.weight$": gate_and_up(_GATES, _UPS),
    r"shared_mlp\.input_linear\.weight$": gate_and_up(
        "{layer}.ffn_gate_shexp.weight", "{layer}.ffn_up_shexp.weight"
    ),
}
DBRX: Mapping[str, Move] = {
    r"experts\.mlp\.w1$": as_named(_GATES, _of_experts),
    r"experts\.mlp\.v1$": as_named(_UPS, _of_experts),
    r"experts\.mlp\.w2$": as_named(_DOWNS, _of_experts_turned),
}
LLAMA4: Mapping[str, Move] = {
    r"experts\.gate_up_proj$": turned_gate_and_up(_GATES, _UPS),
    r"experts\.down_proj$": as_named(_DOWNS, turned),
}
AFMOE: Mapping[str, Move] = {
    r"mlp\.router\.gate\.weight$": as_named("{layer}.ffn_gate_inp.weight"),
    r"mlp\.expert_bias$": as_named("{layer}.exp_probs_b.bias"),
    r"self_attn\.gate_proj\.weight$": as_named("{layer}.attn_gate.weight"),
    **EXPERTS,
}
QWEN3VL: Mapping[str, Move] = {
    r"experts\.gate_up_proj$": _either_way_gate_and_up,
    r"experts\.down_proj$": _either_way_down,
}
