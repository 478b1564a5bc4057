"""Falcon-H1: attention and a state side by side in each layer, and multipliers everywhere.

GGUF has no keys for those: they are part of the matrices. Source: Falcon-H1's published code.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from edgellm.convert.families.family import Family
from edgellm.convert.families.recurrent import MAMBA2
from edgellm.convert.keys import Keys, decoder
from edgellm.convert.moves import Move, Named, as_named, zero_left_out
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Weight, from_floats, mapped


def _falcon_h1(s: Settings) -> Keys:
    keys = decoder(s)
    inner = s.optional_integer("mamba_d_ssm") or s.integer("mamba_expand") * s.hidden_size
    if s.flag("mamba_rms_norm") and s.flag("mamba_norm_before_gate", True):
        raise s.wrong("mamba_norm_before_gate", True, "false: gates come before the norm here")
    if s.rope_kind == "llama3":
        raise s.wrong("rope_type", "llama3", "another: layers take no divisors of frequencies")
    return keys | {
        "ssm.conv_kernel": s.integer("mamba_d_conv"),
        "ssm.inner_size": inner,
        "ssm.state_size": s.integer("mamba_d_state"),
        "ssm.time_step_rank": s.integer("mamba_n_heads"),
        "ssm.group_count": s.integer("mamba_n_groups"),
    }


def _by_row(weight: Weight, factors: np.ndarray) -> Weight:
    """Each row times a number."""
    read = weight.floats
    return from_floats(
        weight.origin, weight.shape, weight.natural, lambda rows: read(rows) * factors[rows, None]
    )


def _multiplied(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """A matrix times its multipliers; those of what it reads are none of its bias."""
    part, suffix = name.split(".")[-2:]
    within = s.number("attention_in_multiplier", 1.0) if suffix == "weight" else 1.0
    gate, down = s.numbers("mlp_multipliers") or (1.0, 1.0)
    factors = {
        "q_proj": within,
        "k_proj": within * s.number("key_multiplier", 1.0),
        "v_proj": within,
        "o_proj": s.number("attention_out_multiplier", 1.0),
        "gate_proj": gate,
        "down_proj": down,
        "out_proj": s.number("ssm_out_multiplier", 1.0),
        "lm_head": s.number("lm_head_multiplier", 1.0),
    }
    factor = np.float32(factors[part])
    yield name, mapped(weight, lambda values: values * factor)


def _multiplied_input(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Gates, states' inputs, what writes to states, what reads them, and steps, each times a
    number."""
    inner = s.optional_integer("mamba_d_ssm") or s.integer("mamba_expand") * s.hidden_size
    shared = s.integer("mamba_n_groups") * s.integer("mamba_d_state")
    sizes = [inner, inner, shared, shared, s.integer("mamba_n_heads")]
    if sum(sizes) != weight.rows:
        raise weight.wrong(f"expected {' + '.join(map(str, sizes))} rows by config.json")
    each = s.numbers("ssm_multipliers") or [1.0] * len(sizes)
    within = s.number("ssm_in_multiplier", 1.0) if name.endswith("weight") else 1.0
    yield name, _by_row(weight, np.repeat(np.array(each, np.float32), sizes) * np.float32(within))


def _multiplied_tokens(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Embeddings, and the same with another factor for logits where those are tied."""
    factor = np.float32(s.number("embedding_multiplier", 1.0))
    yield name, mapped(weight, lambda values: values * factor)
    if s.tied:
        yield from as_named("output.weight", _multiplied)("lm_head.weight", weight, s)


_FALCON: Mapping[str, Move] = {
    **MAMBA2,
    r"self_attn\.o_proj\.bias$": zero_left_out,
    r"\.([qkvo]_proj|gate_proj|down_proj|out_proj)\.(weight|bias)$": _multiplied,
    r"^lm_head\.weight$": _multiplied,
    r"\.in_proj\.(weight|bias)$": _multiplied_input,
    r"embed_tokens\.weight$": _multiplied_tokens,
}

ROWS: Mapping[str, Family] = {"FalconH1ForCausalLM": Family("falcon-h1", _falcon_h1, _FALCON)}
