"""Families without experts whose code is published beside their weights, and not in `transformers`.

Facts from the code beside the weights.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from edgellm.convert.families.dense import windowed
from edgellm.convert.families.family import PAIRS, TIED, Family
from edgellm.convert.families.layered import up_to
from edgellm.convert.families.older import MASKS
from edgellm.convert.families.varied import local_share
from edgellm.convert.keys import Keys, check_alibi, decoder, rotary
from edgellm.convert.moves import (
    Named,
    as_named,
    gate_and_up,
    layer_of,
    times,
    turned,
)
from edgellm.convert.settings import Settings
from edgellm.convert.weight import (
    Indices,
    Values,
    Weight,
    columns_reordered,
    from_floats,
    parts,
    reordered,
    reshaped,
)


def _codeshell(s: Settings) -> Keys:
    return decoder(s) | {"feed_forward_length": s.optional_integer("n_inner") or 4 * s.hidden_size}


def _codeshell_groups(config: Mapping[str, Any]) -> Mapping[str, Any]:
    groups = config.get("num_query_groups") if config.get("group_query_attention") else None
    return {"num_key_value_heads": groups or config.get("n_head")}


def _jais(s: Settings) -> Keys:
    """Without rotation: biases by distance. Source: Sengupta et al. 2023."""
    check_alibi(s)
    return decoder(s)


def _jais_slopes(tensors: dict[str, Weight]) -> Keys:
    """The largest bias, from the slope of the first head where the checkpoint has it."""
    slopes = tensors.pop("transformer.relative_pe.slopes", None)
    if slopes is None:
        return {"attention.max_alibi_bias": 8.0}
    count = slopes.rows * slopes.columns
    first = float(reshaped(slopes, (count, 1)).floats(np.zeros(1, np.intp)).item())
    if not 0 < first < 1:
        raise slopes.wrong(f"begins with {first}, expected a slope between 0 and 1")
    largest = -round(math.log2(first) * 2 ** math.floor(math.log2(count)))
    return {"attention.max_alibi_bias": float(largest)}


def _jais_table(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Embeddings are multiplied, and so are logits: both of them in the matrices."""
    factor = s.optional_number("mup_embeddings_scale", "embeddings_scale")
    yield from times(1.0 if factor is None else factor)(name, weight, s)
    if s.tied:
        yield from _jais_output("output.weight", weight, s)


def _jais_output(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    alpha, width = s.optional_number("mup_output_alpha"), s.number("mup_width_scale", 1.0)
    yield from times(s.number("width_scale", 1.0) if alpha is None else alpha * width)(
        name, weight, s
    )


def _nanbeige(s: Settings) -> Keys:
    """All layers run several times."""
    return decoder(s) | {
        "num_loops": max(1, s.optional_integer("num_loops") or 1),
        "skip_loop_final_norm": s.flag("skip_loop_final_norm"),
    }


_PLAMO_CONTEXT = 4096  # in the model's code
_PLAMO_SHARED = 8  # queries that read a head of keys


def _plamo(s: Settings) -> Keys:
    return decoder(s.with_values(max_position_embeddings=_PLAMO_CONTEXT))


def _plamo_settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Heads of keys follow from how many queries read each."""
    shared, heads = config.get("n_shared_head", _PLAMO_SHARED), config.get("num_attention_heads")
    both = isinstance(shared, int) and isinstance(heads, int) and shared > 0
    return {"num_key_value_heads": heads // shared if both else None}


def _by_key(rows: int, s: Settings) -> Indices:
    """Its queries read heads of keys in turn; those of one head of keys become neighbours."""
    shared = s.heads // s.kv_heads
    order = np.arange(rows).reshape(shared, s.kv_heads, s.head_dim)
    return order.swapaxes(0, 1).reshape(-1)


def _plamo_queries(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    if weight.rows != s.heads * s.head_dim:
        raise weight.wrong(f"expected {s.heads} heads of {s.head_dim} rows")
    yield name, reordered(weight, _by_key(weight.rows, s), weight.shape)


def _plamo_output(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    if weight.columns != s.heads * s.head_dim:
        raise weight.wrong(f"expected {s.heads} heads of {s.head_dim} columns")
    yield name, columns_reordered(weight, _by_key(weight.columns, s))


def _plm(s: Settings) -> Keys:
    """Keys and values are made of latents. Source: Deng et al. 2025 (PLM)."""
    position = s.integer("qk_rope_head_dim")
    return (
        decoder(s)
        | rotary(s, position)
        | {
            "attention.kv_lora_rank": s.integer("kv_lora_rank"),
            "attention.key_length": s.integer("qk_nope_head_dim") + position,
            "attention.value_length": s.integer("v_head_dim"),
        }
    )


def _refact(s: Settings) -> Keys:
    """A gated block of two thirds of four times the width; one head of keys."""
    keys = decoder(s) | {
        "feed_forward_length": up_to(int(8 * s.hidden_size / 3), 256),
        "attention.head_count_kv": 1,
        "attention.layer_norm_rms_epsilon": s.number("layer_norm_epsilon", 1e-5),
    }
    del keys["attention.layer_norm_epsilon"]
    return keys


def _keys_and_values(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    for part, one in zip("kv", parts(weight, [s.head_dim, s.head_dim]), strict=True):
        yield f"{layer_of(name)}.attn_{part}.weight", one


def _spark(s: Settings) -> Keys:
    """Gates of heads; layers with a window rotate another share of a head."""
    for name, expected in (
        ("gate_attn_act_mode", "sigmoid"), ("headwise_attn_output_gate", True),
    ):  # fmt: skip
        if s.value(name) != expected:
            raise s.wrong(name, s.value(name), str(expected).lower())
    return windowed(s) | local_share(s)


def _talkie(s: Settings) -> Keys:
    """Norms without weights and without a number of their own: that of float32."""
    return decoder(s) | {"attention.layer_norm_rms_epsilon": float(np.finfo(np.float32).eps)}


def _logit_scale(tensors: dict[str, Weight]) -> Keys:
    gain = tensors.pop("lm_head_gain.w_g", None)
    return {} if gain is None else {"logit_scale": gain.floats(np.arange(1)).item()}


def _other_way_round(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Talkie rotates the other way: the second half of each head has its sign changed."""
    dim = s.head_dim
    first = np.arange(weight.rows) % dim < dim // 2
    signs = np.where(first, 1, -1).astype(np.float32)

    def signed(rows: Indices) -> Values:
        return weight.floats(rows) * signs[rows, None]

    yield name, from_floats(weight.origin, weight.shape, weight.natural, signed)


_TALKIE_NAMES = {
    r"^model\.blocks\.": "model.layers.",
    r"^model\.embed\.": "model.embed_tokens.",
    r"\.attn\.attn_(query|key|value|resid)\.": r".self_attn.\1.",
    **{
        rf"self_attn\.{old}\.": f"self_attn.{new}_proj."
        for old, new in (("query", "q"), ("key", "k"), ("value", "v"), ("resid", "o"))
    },
    r"mlp\.mlp_gate\.": "mlp.gate_proj.",
    r"mlp\.mlp_linear\.": "mlp.up_proj.",
    r"mlp\.mlp_resid\.": "mlp.down_proj.",
}
_JAIS = {
    r"^transformer\.wte\.weight$": _jais_table,
    r"^lm_head\.weight$": _jais_output,
    r"\.c_(attn|proj|fc|fc2)\.weight$": turned,
}
_TALKIE = {
    r"self_attn\.[qk]_proj\.weight$": _other_way_round,
    r"attn_gain\.a_g$": as_named("{layer}.attn_output.scale"),
    r"mlp_gain\.a_g$": as_named("{layer}.ffn_down.scale"),
    r"embed_skip\.a_g$": as_named("{layer}.layer_output_scale.weight"),
    r"head_gain\.head_g$": as_named(
        "{layer}.attn_q_norm.weight",
        lambda name, weight, s: [(name, reshaped(weight, (weight.rows, 1)))],
    ),
    r"^lm_head$": as_named("output.weight"),
}

ROWS: Mapping[str, Family] = {
    "CodeShellForCausalLM": Family(
        "codeshell", _codeshell, left=MASKS, implied=_codeshell_groups, defaults=TIED
    ),
    "CogVLMForCausalLM": Family(
        "cogvlm",
        moves={
            r"language_expert_query_key_value\.": as_named("{layer}.attn_qkv.weight"),
            r"language_expert_dense\.": as_named("{layer}.attn_output.weight"),
        },
        left=(r"^model\.vision\.", r"\.vision_expert_", r"\.vision_mlp\."),
        renames={r"mlp\.language_mlp\.": "mlp."},
    ),
    "GPTRefactForCausalLM": Family(
        "refact",
        _refact,
        {
            r"\.attn\.kv\.weight$": _keys_and_values,
            r"\.attn\.q\.weight$": as_named("{layer}.attn_q.weight"),
            r"\.gate_up_proj\.weight$": gate_and_up(
                "{layer}.ffn_gate.weight", "{layer}.ffn_up.weight"
            ),
        },
        left=MASKS,
    ),
    "JAISLMHeadModel": Family("jais", _jais, _JAIS, left=MASKS, learned=_jais_slopes),
    "MaincoderForCausalLM": Family("maincoder"),
    "NanbeigeForCausalLM": Family("nanbeige", _nanbeige, PAIRS, names_of=("llama",)),
    "PlamoForCausalLM": Family(
        "plamo",
        _plamo,
        {r"self_attn\.q_proj\.": _plamo_queries, r"self_attn\.o_proj\.": _plamo_output},
        implied=_plamo_settings,
    ),
    "PLMForCausalLM": Family("plm", _plm),
    "Spark2_5ForCausalLM": Family(
        "spark2_5",
        _spark,
        {
            r"self_attn\.q_k_v_proj\.weight$": as_named("{layer}.attn_qkv.weight"),
            r"self_attn\.g_proj\.weight$": as_named("{layer}.attn_gate.weight"),
        },
        names_of=("qwen3",),
    ),
    "TalkieForCausalLM": Family(
        "talkie", _talkie, _TALKIE, _TALKIE_NAMES, learned=_logit_scale, names_of=("llama",)
    ),
}
