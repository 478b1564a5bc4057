"""Models whose layers keep a state instead of keys and values, all or some of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgellm.convert.families.dense import granite
from edgellm.convert.families.experts import SIGMOID, groups
from edgellm.convert.families.family import EXPERTS, PAIRS, TIED, Family
from edgellm.convert.keys import CONTEXT, Keys, common, decoder
from edgellm.convert.moves import (
    Move,
    Named,
    as_column,
    as_named,
    decays,
    gate_and_up,
    then,
    without_ones,
)
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Weight, reshaped
from edgellm.gguf_loader import NewValue

_ANY_LENGTH = 1 << 20


def _per_layer(s: Settings, present: list[bool]) -> NewValue:
    """The heads of keys of layers with attention, 0 for others."""
    return np.array([s.kv_heads if here else 0 for here in present], np.uint32)


def _lfm2(s: Settings) -> Keys:
    keys = decoder(s)
    width = s.integer("block_ff_dim", "intermediate_size")
    if s.flag("block_auto_adjust_ff_dim", True) and s.value("moe_intermediate_size") is None:
        width = int(s.number("block_ffn_dim_multiplier", 1.0) * int(2 * width / 3))
        multiple = s.optional_integer("block_multiple_of") or 256
        width = -(width // -multiple) * multiple
    keys["feed_forward_length"] = width
    kinds = s.items("layer_types")
    keys["attention.head_count_kv"] = _per_layer(s, [kind != "conv" for kind in kinds])
    return keys | {"shortconv.l_cache": s.integer("conv_L_cache")}


def _lfm2moe(s: Settings) -> Keys:
    return _lfm2(s) | {"expert_gating_func": SIGMOID}


def _mamba(s: Settings) -> Keys:
    hidden = s.hidden_size
    keys: Keys = {
        "block_count": s.layers,
        "context_length": s.optional_integer(*CONTEXT) or _ANY_LENGTH,
        "embedding_length": hidden,
        "feed_forward_length": 0,
        "attention.head_count": 0,
        "vocab_size": s.integer("vocab_size"),
        "attention.layer_norm_rms_epsilon": s.number("layer_norm_epsilon", 1e-5),
        "ssm.conv_kernel": s.optional_integer("conv_kernel", "d_conv") or 4,
        "ssm.inner_size": s.optional_integer("intermediate_size", "d_inner") or 2 * hidden,
        "ssm.state_size": s.optional_integer("state_size", "d_state") or 16,
    }
    rank = s.value("time_step_rank", "dt_rank")
    keys["ssm.time_step_rank"] = rank if isinstance(rank, int) else -(hidden // -16)
    keys["ssm.dt_b_c_rms"] = s.text("model_type") == "falcon_mamba"
    return keys


def _mamba2(s: Settings) -> Keys:
    keys = _mamba(s)
    inner = s.optional_integer("d_inner") or int(s.number("expand", 2) * s.hidden_size)
    keys |= {
        "ssm.inner_size": inner,
        "ssm.state_size": s.optional_integer("state_size", "d_state") or 128,
        "ssm.time_step_rank": s.optional_integer("num_heads") or inner // s.integer("head_dim"),
        "ssm.group_count": s.optional_integer("n_groups") or 1,
    }
    del keys["ssm.dt_b_c_rms"]
    return keys


def _jamba(s: Settings) -> Keys:
    offset, period = s.optional_integer("attn_layer_offset") or 0, s.integer("attn_layer_period")
    keys = common(s)
    keys["attention.head_count_kv"] = _per_layer(
        s, [i >= offset and (i - offset) % period == 0 for i in range(s.layers)]
    )
    rank = s.value("mamba_dt_rank")
    hidden = s.hidden_size
    return keys | {
        "ssm.conv_kernel": s.integer("mamba_d_conv"),
        "ssm.inner_size": s.integer("mamba_expand") * hidden,
        "ssm.state_size": s.integer("mamba_d_state"),
        "ssm.time_step_rank": rank if isinstance(rank, int) else -(hidden // -16),
    }


def _granite_hybrid_name(s: Settings) -> str:
    """Those that have attention in every layer are of the older architectures."""
    if _recurrent_layers(s):
        return "granitehybrid"
    return "granitemoe" if s.optional_integer("num_local_experts") else "granite"


def _recurrent_layers(s: Settings) -> list[bool]:
    kinds = s.items("layer_types", "layers_block_type")
    recurrent = [kind in ("mamba", "mamba2", "linear_attention") for kind in kinds]
    return recurrent if any(recurrent) else []


def _granite_hybrid(s: Settings) -> Keys:
    keys = granite(s)
    recurrent = _recurrent_layers(s)
    shared = s.optional_integer("shared_intermediate_size")
    if not s.optional_integer("num_local_experts"):
        keys.pop("expert_count", None)
        keys.pop("expert_used_count", None)
        keys["feed_forward_length"] = shared or s.integer("intermediate_size")
    elif shared:
        keys["expert_shared_feed_forward_length"] = shared
    if s.text("position_embedding_type") != "rope":
        keys["rope.scaling.finetuned"] = False
    if not recurrent:
        return keys
    keys["attention.head_count_kv"] = _per_layer(s, [not here for here in recurrent])
    return keys | _heads_of_mamba(s)


def _bamba(s: Settings) -> Keys:
    """Part of a head is rotated, in the layers with attention."""
    attention = set(s.integers("attn_layer_indices"))
    keys = decoder(s) | _heads_of_mamba(s)
    keys["attention.head_count_kv"] = _per_layer(s, [i in attention for i in range(s.layers)])
    return keys


def _heads_of_mamba(s: Settings) -> Keys:
    return {
        "ssm.conv_kernel": s.integer("mamba_d_conv"),
        "ssm.inner_size": s.integer("mamba_expand") * s.hidden_size,
        "ssm.state_size": s.integer("mamba_d_state"),
        "ssm.time_step_rank": s.integer("mamba_n_heads"),
        "ssm.group_count": s.integer("mamba_n_groups"),
    }


_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def _as_many_layers(config: Mapping[str, Any]) -> Mapping[str, Any]:
    blocks = _nemotron_blocks(Settings(Path("config.json"), config))
    return {"num_hidden_layers": len(blocks)} if blocks else {}


def _nemotron_blocks(s: Settings) -> list[str]:
    """What each layer is, by one of two ways to say it."""
    kinds = s.items("layers_block_type", "layer_types")
    kinds = kinds or [_LETTERS.get(c, c) for c in s.text("hybrid_override_pattern") or ""]
    same = {"linear_attention": "mamba", "full_attention": "attention"}
    return [same.get(str(kind), str(kind)) for kind in kinds]


def _nemotron_name(s: Settings) -> str:
    return "nemotron_h_moe" if "moe" in _nemotron_blocks(s) else "nemotron_h"


def _nemotron(s: Settings) -> Keys:
    blocks = _nemotron_blocks(s)
    if not blocks:
        raise s.wrong("layers_block_type", None, "what each layer is")
    heads, width = s.integer("mamba_num_heads"), s.integer("mamba_head_dim")
    keys = decoder(s) | {
        "attention.layer_norm_rms_epsilon": s.number("layer_norm_epsilon", 1e-5),
        "attention.head_count_kv": _per_layer(s, [kind == "attention" for kind in blocks]),
        "feed_forward_length": np.array(
            [s.integer("intermediate_size") if kind == "mlp" else 0 for kind in blocks], np.uint32
        ),
        "ssm.conv_kernel": s.integer("conv_kernel"),
        "ssm.inner_size": heads * width,
        "ssm.state_size": s.integer("ssm_state_size"),
        "ssm.time_step_rank": heads,
        "ssm.group_count": s.integer("n_groups"),
    }
    keys.pop("attention.layer_norm_epsilon", None)
    if "moe" not in blocks:
        return {key: value for key, value in keys.items() if not key.startswith("expert_")}
    shared = s.integer("moe_shared_expert_intermediate_size")
    return (
        keys
        | groups(s)
        | {"expert_gating_func": SIGMOID, "expert_shared_feed_forward_length": shared}
    )


def _grouped_norm(name: str, weight: Weight, s: Settings) -> list[Named]:
    groups = s.optional_integer("n_groups", "mamba_n_groups") or 1
    return [(name, reshaped(weight, (groups, weight.rows // groups)))]


def _shared_or_only(name: str, weight: Weight, s: Settings) -> list[Named]:
    """Granite's block beside experts, or the only one where there are none."""
    end = "_shexp.weight" if s.optional_integer("num_local_experts") else ".weight"
    split = gate_and_up("{layer}.ffn_gate" + end, "{layer}.ffn_up" + end)
    return list(split(name, weight, s))


def _shared_or_only_down(name: str, weight: Weight, s: Settings) -> list[Named]:
    end = "_shexp.weight" if s.optional_integer("num_local_experts") else ".weight"
    return list(as_named("{layer}.ffn_down" + end)(name, weight, s))


MAMBA: Mapping[str, Move] = {
    r"\.A_log$": as_named("{layer}.ssm_a", decays),
    r"\.D$": as_named("{layer}.ssm_d"),
    r"conv1d\.weight$": without_ones,
}
MAMBA2: Mapping[str, Move] = {
    r"\.A_log$": as_named("{layer}.ssm_a", then(decays, as_column)),
    r"\.D$": as_named("{layer}.ssm_d", as_column),
    r"\.dt_bias$": as_named("{layer}.ssm_dt.bias"),
    r"conv1d\.weight$": without_ones,
    r"(mixer|mamba)\.norm\.weight$": as_named("{layer}.ssm_norm.weight", _grouped_norm),
}
_CONV = {
    r"\.conv\.conv\.weight$": as_named("{layer}.shortconv.conv.weight", without_ones),
    r"\.expert_bias$": as_named("{layer}.exp_probs_b.bias"),
    **EXPERTS,
}
_NEMOTRON: Mapping[str, Move] = {
    **MAMBA2,
    r"mixer\.gate\.e_score_correction_bias$": as_named("{layer}.exp_probs_b.bias"),
}
_GRANITE: Mapping[str, Move] = {
    **PAIRS,
    **MAMBA2,
    r"block_sparse_moe\.input_linear\.weight$": gate_and_up(
        "{layer}.ffn_gate_exps.weight", "{layer}.ffn_up_exps.weight"
    ),
    r"shared_mlp\.input_linear\.weight$": _shared_or_only,
    r"shared_mlp\.output_linear\.weight$": _shared_or_only_down,
}

ROWS: Mapping[str, Family] = {
    "BambaForCausalLM": Family("granitehybrid", _bamba, {**PAIRS, **MAMBA2}),
    "NemotronHForCausalLM": Family(_nemotron_name, _nemotron, _NEMOTRON, implied=_as_many_layers),
    "FalconMambaForCausalLM": Family("mamba", _mamba, MAMBA, defaults=TIED),
    "GraniteMoeHybridForCausalLM": Family(_granite_hybrid_name, _granite_hybrid, _GRANITE),
    "JambaForCausalLM": Family(
        "jamba",
        _jamba,
        {
            **MAMBA,
            **EXPERTS,
        },
    ),
    "Lfm2ForCausalLM": Family("lfm2", _lfm2, _CONV, defaults=TIED),
    "Lfm2Model": Family("lfm2", _lfm2, _CONV, {r"^(?!model\.)": "model."}, defaults=TIED),
    "Lfm2MoeForCausalLM": Family("lfm2moe", _lfm2moe, _CONV, defaults=TIED),
    "MambaForCausalLM": Family("mamba", _mamba, MAMBA, defaults=TIED),
    "Mamba2ForCausalLM": Family("mamba2", _mamba2, MAMBA2),
}
