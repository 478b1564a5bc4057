"""Decoders whose layers differ in heads, windows, rotation or turns."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from edgellm.convert.families.dense import INNER, VISION, granite, windowed
from edgellm.convert.families.experts import NAMED, SIGMOID, groups
from edgellm.convert.families.family import EXPERTS, PAIRS, Family
from edgellm.convert.keys import Keys, common, decoder, windows
from edgellm.convert.moves import (
    Named,
    as_named,
    gate_and_up,
    layer_of,
    one_more,
    without_ones,
    zero_left_out,
)
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Weight, from_array, parts


def _is_windowed(s: Settings) -> list[bool]:
    return [kind == "sliding_attention" for kind in s.items("layer_types")[: s.layers]]


def _each(s: Settings, windowed: int, full: int) -> np.ndarray:
    """A number of layers with a window, and another of those without."""
    return np.array([windowed if yes else full for yes in _is_windowed(s)], np.uint32)


def leading(s: Settings) -> Keys:
    """Layers before the first with experts are told one by one."""
    kinds = list(s.items("mlp_layer_types"))
    dense = next((i for i, kind in enumerate(kinds) if kind != "dense"), len(kinds))
    return {"leading_dense_block_count": dense} if kinds else {}


def local_share(s: Settings) -> Keys:
    """Layers with a window may rotate another share of a head."""
    local = s.group("rope_parameters").group("sliding_attention")
    share = local.optional_number("partial_rotary_factor")
    return {"rope.dimension_count_swa": int(s.head_dim * (1.0 if share is None else share))}


def _granite_swa(s: Settings) -> Keys:
    """Layers without a base do not rotate."""
    bases = s.numbers("layer_rope_theta")
    rotated = [bool(base) for base in bases] or [bool(yes) for yes in s.items("no_rope_layers")]
    if len({base for base in bases if base}) > 1:
        raise s.wrong("layer_rope_theta", sorted(set(bases)), "one base for all layers, or 0")
    keys = granite(s) | windows(s)
    base = next((base for base in bases if base), None)
    if base:
        keys["rope.freq_base"] = base
    if rotated:
        keys["attention.rope_pattern"] = np.array(rotated, np.uint32)
    shared = s.optional_integer("shared_intermediate_size")
    return keys | ({"expert_shared_feed_forward_length": shared} if shared else {})


def _mimo_layers(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The kinds of layers, from numbers that say so, and windows that do not count the token."""
    implied: dict[str, Any] = {}
    if isinstance(pattern := config.get("hybrid_layer_pattern"), list):
        kinds = ("full_attention", "sliding_attention")
        implied["layer_types"] = [kinds[bool(yes)] for yes in pattern]
    if isinstance(frequency := config.get("moe_layer_freq"), list):
        implied["mlp_layer_types"] = ["sparse" if yes else "dense" for yes in frequency]
    if isinstance(window := config.get("sliding_window_size"), int) and window:
        implied["sliding_window"] = window + 1
    if config.get("layernorm_epsilon"):
        implied["rms_norm_eps"] = config["layernorm_epsilon"]
    return implied


def _mimo2(s: Settings) -> Keys:
    """Layers with a window have twice the heads of keys, and sinks."""
    more = s.optional_integer("swa_num_key_value_heads") or 2 * s.kv_heads
    same = (("swa_num_attention_heads", s.heads), ("swa_head_dim", s.head_dim))
    for name, expected in (*same, ("swa_v_head_dim", s.integer("v_head_dim"))):
        if s.value(name) not in (None, expected):
            raise s.wrong(name, s.value(name), f"{expected}, as in layers without a window")
    return (
        decoder(s)
        | windows(s)
        | leading(s)
        | groups(s)
        | {
            "attention.head_count_kv": _each(s, more, s.kv_heads),
            "attention.value_length": s.integer("v_head_dim"),
            "attention.value_scale": s.number("attention_value_scale", 1.0),
            "expert_gating_func": SIGMOID,
            "expert_weights_norm": s.flag("norm_topk_prob", True),
        }
    )


def _laguna(s: Settings) -> Keys:
    for name in ("moe_apply_router_weight_on_input", "moe_router_logit_softcapping"):
        if s.value(name):
            raise s.wrong(name, s.value(name), "none: it has no key")
    heads = s.integers("num_attention_heads_per_layer") or [s.heads] * s.layers
    return (
        decoder(s)
        | windows(s)
        | local_share(s)
        | leading(s)
        | {
            "attention.head_count": np.array(heads, np.uint32),
            "expert_weights_scale": s.number("moe_routed_scaling_factor", 1.0),
            "expert_weights_norm": True,
            "expert_gating_func": SIGMOID,
        }
    )


def _hy3(s: Settings) -> Keys:
    shared = s.optional_integer("num_shared_experts") or 0
    return (
        decoder(s)
        | leading(s)
        | {
            "expert_shared_feed_forward_length": shared * s.integer("moe_intermediate_size"),
            "expert_weights_norm": s.flag("route_norm", True),
            "expert_weights_scale": s.number("router_scaling_factor", 1.0),
            "expert_gating_func": SIGMOID,
        }
    )


def _step(s: Settings) -> Keys:
    """Layers with a window have heads of their own number. Limits are 0 where there are none."""
    other = s.group("attention_other_setting")
    heads = s.optional_integer("num_sliding_attention_heads")
    heads = heads or other.optional_integer("num_attention_heads") or s.heads
    kv_heads = s.optional_integer("num_attention_groups") or s.kv_heads
    local = other.optional_integer("num_attention_groups") or kv_heads
    keys = decoder(s) | windows(s) | leading(s)
    keys |= {
        "attention.head_count": _each(s, heads, s.heads),
        "attention.head_count_kv": _each(s, local, kv_heads),
        "expert_shared_feed_forward_length": s.integer("share_expert_dim"),
        "expert_weights_scale": s.number("moe_router_scaling_factor", 1.0),
        "expert_weights_norm": s.flag("norm_expert_weight", True),
        "expert_gating_func": SIGMOID,
        "rope.dimension_count": s.head_dim,  # of which layers without a window rotate half
    }
    for key, name in (("exp", "swiglu_limits"), ("shexp", "swiglu_limits_shared")):
        limits = s.numbers(name)[: s.layers]
        if limits:
            keys[f"swiglu_clamp_{key}"] = np.array(limits, np.float32)
    return keys


def _muse(s: Settings) -> Keys:
    """Layers that see all do not rotate."""
    return windowed(s) | {
        "logit_scale": s.number("output_multiplier", 1.0),
        "attention.layer_norm_rms_epsilon": s.number("rms_norm_eps", 1e-5),
    }


def _muse_norms(s: Settings) -> dict[str, Weight]:
    """Queries and keys are normed without weights, and queries multiplied."""
    found = {}
    for i in range(s.layers):
        for part, factor in (("q", s.number("qk_scale_factor", 1.0)), ("k", 1.0)):
            name = f"blk.{i}.attn_{part}_norm.weight"
            found[name] = from_array(name, np.full(s.head_dim, factor))
    return found


def _hrm(s: Settings) -> Keys:
    """Each run of a layer counts as a layer."""
    stack, high, low = s.layers, s.integer("H_cycles"), s.integer("L_cycles")
    return common(s.with_values(num_hidden_layers=stack * high * (low + 1))) | {
        **{
            key: value
            for key, value in decoder(s).items()
            if key.startswith(("rope.", "attention."))
        },
        "embedding_scale": s.number("embedding_scale", 1.0),
        "hrm.layers_per_stack": stack,
        "hrm.h_cycles": high,
        "hrm.l_cycles": low,
        "hrm.prefix_lm": s.flag("prefix_lm"),
    }


def _of_stack(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Layers are those of one stack."""
    stack = config.get("num_layers_per_stack")
    return {"num_hidden_layers": stack} if stack else {}


def _hrm_layer(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """The lower stack, then the upper; some matrices lie together."""
    first = s.layers if ".H_module." in name else 0
    layer = f"blk.{first + int(layer_of(name).removeprefix('blk.'))}"
    end = name.split(".layers.")[1].split(".", 1)[1].removesuffix(".weight")
    together = {"attn.gqkv_proj": _GQKV, "mlp.gate_up_proj": ("ffn_gate", "ffn_up")}
    single = {"attn.o_proj": "attn_output", "mlp.down_proj": "ffn_down"}
    if end in single:
        yield f"{layer}.{single[end]}.weight", weight
    elif end in together:
        names = together[end]
        for new, one in zip(
            names, parts(weight, [weight.rows // len(names)] * len(names)), strict=True
        ):
            yield f"{layer}.{new}.weight", one
    else:
        raise weight.wrong(f"{name!r} has no place in hrm_text")


_GQKV = ("attn_gate", "attn_q", "attn_k", "attn_v")
_SINKS = {
    r"\.(sinks|attention_sink_bias)$": as_named("{layer}.attn_sinks.weight"),
}
_GRANITE = {
    **PAIRS,
    **_SINKS,
    r"block_sparse_moe\.router\.weight$": as_named("{layer}.ffn_gate_inp.weight"),
    r"(shared_mlp\.input_linear)\.weight$": gate_and_up(
        "{layer}.ffn_gate_shexp.weight", "{layer}.ffn_up_shexp.weight"
    ),
    r"block_sparse_moe\.input_linear\.weight$": gate_and_up(
        "{layer}.ffn_gate_exps.weight", "{layer}.ffn_up_exps.weight"
    ),
    **EXPERTS,
}
_MUSE = {
    r"self_attn\.gate_proj\.weight$": as_named("{layer}.attn_gate.weight"),
    r"layernorm\.weight$": one_more,
    r"^lm_head\.weight$": as_named("output.weight"),
    **PAIRS,
}
_BIAS = {r"\.expert_bias$": as_named("{layer}.exp_probs_b.bias"), **NAMED}
_STEP = {
    r"router_bias$": as_named("{layer}.exp_probs_b.bias"),
    r"self_attn\.g_proj\.weight$": as_named("{layer}.attn_gate.weight"),
    r"norm\.weight$": one_more,
    r"\.moe\.gate_proj\.weight$": as_named("{layer}.ffn_gate_exps.weight", without_ones),
    r"\.moe\.up_proj\.weight$": as_named("{layer}.ffn_up_exps.weight", without_ones),
    r"\.moe\.down_proj\.weight$": as_named("{layer}.ffn_down_exps.weight", without_ones),
    **EXPERTS,
    **NAMED,
}
_granite_row = Family("granite_swa", _granite_swa, _GRANITE, names_of=("granite", "granitemoe"))
_mimo_row = Family(
    "mimo2",
    _mimo2,
    {**_SINKS, r"self_attn\.[qkv]_proj\.bias$": zero_left_out, **EXPERTS, **NAMED},
    left=VISION,
    implied=_mimo_layers,
)
_step_row = Family("step35", _step, _STEP, INNER, (*VISION, r"^vit_large_projector\."))

ROWS: Mapping[str, Family] = {
    "GraniteSWAForCausalLM": _granite_row,
    "GraniteMoeSWAForCausalLM": _granite_row,
    "HYV3ForCausalLM": Family(
        "hy_v3", _hy3, {**_BIAS, **EXPERTS}, names_of=("llama", "hunyuan-moe")
    ),
    "HrmTextForCausalLM": Family(
        "hrm_text",
        _hrm,
        {r"_module\.layers\.": _hrm_layer, r"z_L_init$": as_named("hrm.z_l_init")},
        implied=_of_stack,
        names_of=("llama",),
    ),
    "LagunaForCausalLM": Family(
        "laguna",
        _laguna,
        {r"g_proj\.weight$": as_named("{layer}.attn_gate.weight"), **EXPERTS, **NAMED},
        names_of=("qwen3", "qwen2moe"),
    ),
    "MiMoV2FlashForCausalLM": _mimo_row,
    "MiMoV2ForCausalLM": _mimo_row,
    "MuseGlimmerForConditionalGeneration": Family(
        "muse-glimmer",
        _muse,
        _MUSE,
        INNER,
        (*VISION, r"^model\.vision_(adapter|projection)"),
        extra=_muse_norms,
        names_of=("gemma2",),
    ),
    "Step3p5ForCausalLM": _step_row,
    "Step3p7ForConditionalGeneration": _step_row,
}
