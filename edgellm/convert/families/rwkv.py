"""RWKV: layers that mix a token with the one before, in shares of their own, and keep a state.

Sources: Peng et al. 2024 (Eagle and Finch), Peng et al. 2025 (RWKV-7), and the code beside the
weights of RWKV, fla-hub, recursal and RWKV-Red-Team.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from edgellm.convert.families.family import Family, own_activation
from edgellm.convert.keys import Keys
from edgellm.convert.moves import Move, Named, as_named, then, times, turned, without_ones
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Weight, reordered, reshaped, transposed

_ANY_LENGTH = 1 << 20
_RANKS = {  # of RWKV-7, under the names of RWKV's own code and of fla's
    "attention.decay_lora_rank": (("lora_rank_decay", "decay_low_rank_dim"), 0.5, 1.8),
    "attention.iclr_lora_rank": (("lora_rank_iclr", "a_low_rank_dim"), 0.5, 1.8),
    "attention.value_residual_mix_lora_rank": (
        ("lora_rank_value_residual_mix", "v_low_rank_dim"), 0.5, 1.3,
    ),
    "attention.gate_lora_rank": (("lora_rank_gate", "gate_low_rank_dim"), 0.8, 0.6),
}  # fmt: skip


def _common(s: Settings, width: int) -> Keys:
    return {
        "block_count": s.layers,
        "context_length": _ANY_LENGTH,
        "embedding_length": s.hidden_size,
        "feed_forward_length": width,
        "attention.head_count": 0,
        "vocab_size": s.integer("vocab_size"),
    }


def _extra(s: Settings) -> tuple[int, int]:
    """How many numbers shares and decays are made of."""
    large = s.hidden_size >= 4096
    mix = s.optional_integer("lora_rank_tokenshift") or (64 if large else 32)
    return mix, s.optional_integer("lora_rank_decay") or (128 if large else 64)


def _rwkv6(s: Settings) -> Keys:
    mix, decay = _extra(s)
    width = s.optional_integer("intermediate_size") or int(s.hidden_size * 3.5) // 32 * 32
    return _common(s, width) | {
        "attention.layer_norm_epsilon": s.number("layer_norm_epsilon", 1e-5),
        "rescale_every_n_layers": s.optional_integer("rescale_every") or 0,
        "wkv.head_size": s.integer("head_size"),
        "time_mix_extra_dim": mix,
        "time_decay_extra_dim": decay,
    }


def _rwkv6qwen2(s: Settings) -> Keys:
    mix, decay = _extra(s)
    return _common(s, s.integer("intermediate_size")) | {
        "attention.layer_norm_rms_epsilon": s.number("rms_norm_eps", 1e-6),
        "attention.head_count_kv": s.kv_heads,
        "wkv.head_size": s.hidden_size // s.heads,
        "time_mix_extra_dim": mix,
        "time_decay_extra_dim": decay,
        "token_shift_count": 1,
    }


def _rwkv7(s: Settings) -> Keys:
    width = s.optional_integer("intermediate_size") or 4 * s.hidden_size
    keys = _common(s, width) | {
        "attention.layer_norm_epsilon": s.optional_number("layer_norm_epsilon", "norm_eps") or 1e-5,
        "wkv.head_size": s.integer("head_size", "head_dim"),
    }
    for key, (names, power, factor) in _RANKS.items():
        usual = max(1, round(s.hidden_size**power * factor / 32)) * 32
        keys[key] = s.optional_integer(*names) or usual
    return keys


def _arwkv7(s: Settings) -> Keys:
    if s.value("wkv_version") not in (None, 7):
        raise s.wrong("wkv_version", s.value("wkv_version"), "7")
    return _common(s, s.integer("intermediate_size")) | {
        "attention.layer_norm_rms_epsilon": s.number("rms_norm_eps", 1e-6),
        "wkv.head_size": s.integer("head_size"),
        "attention.decay_lora_rank": 64,
        "attention.iclr_lora_rank": 64,
        "attention.value_residual_mix_lora_rank": 32,
        "attention.gate_lora_rank": 128 if s.flag("wkv_has_gate", True) else 0,
        "token_shift_count": 1,
    }


def _rescaled(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """What a layer adds, halved once more after each so many layers: halves do not overflow."""
    every = s.optional_integer("rescale_every") or 0
    layer = int(name.split("blocks.")[1].split(".")[0])
    yield from times(0.5 ** (layer // every) if every else 1.0)(name, weight, s)


def _ordered(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Parts in the order r, k, v, w, g: GGUF's is that of RWKV-6, which has w first."""
    rows = np.arange(weight.rows).reshape(5, -1)[[3, 1, 2, 0, 4]].reshape(-1)
    yield name, reordered(weight, rows, weight.shape)


def _shares(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """A row for each part, as a convolution."""
    yield name, reshaped(weight, (weight.shape[0], 1, 1, s.hidden_size))


def _flat(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    yield name, reshaped(weight, (weight.rows * weight.columns,))


def _to_both(move: Move) -> Move:
    """Rates of the first layer stand for its shares of values, too, which it does not need."""

    def both(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
        for new, one in move(name, weight, s):
            yield new, one
            yield new.replace("attention.a", "attention.v"), one

    return both


def _bare_lora(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Stored by columns, but for those of fla."""
    is_matrix = sum(size > 1 for size in weight.shape) > 1
    yield name, transposed(weight) if is_matrix else reshaped(weight, (weight.columns,))


def _numbered(letters: str, pattern: str) -> dict[str, str]:
    """Renames of a share for each part, by its place."""
    return {pattern.format(letter): rf".time_shares.{i}" for i, letter in enumerate(letters)}


# GGUF's names end in what these tensors have no word for.
_SUFFIX = {r"^(.*)(?<!\.weight)(?<!\.bias)$": r"\1.weight"}
_RWKV6: Mapping[str, Move] = {
    r"time_mix_lerp_fused": _shares,
    r"time_(maa_w1|decay_w[12])\.weight$": turned,
    r"time_maa_w2\.weight$": turned,
    r"time_(decay|maa_[xkr])\.weight$": without_ones,
    r"blocks\.\d+\.(attention\.output|feed_forward\.value)\.weight$": _rescaled,
}
_RWKV6QWEN2: Mapping[str, Move] = {
    r"time_maa_w[12]\.weight$": then(turned, _ordered),
    **_RWKV6,
}
_SHARES6 = _numbered("wkvrg", r"(?<=attention|self_attn)\.time_maa_{}$")
_NAMES7 = {
    r"\bblocks\b": "layers",
    r"\bffn_norm\.": "ln2.",
    r"\bffn\.": "feed_forward.",
    r"\battn_norm\.": "attention_norm.",
    r"\b(self_attn|attn)\.(time_mixer\.)?": "attention.",
    r"\bg_norm\.": "ln_x.",
    r"_lora\.lora\.0\.weight$": "1.fla.weight",
    r"_lora\.lora\.2\.weight$": "2.fla.weight",
    r"_lora\.lora\.2\.bias$": "0.fla.weight",
}
_WITHOUT_FLA: Move = lambda name, weight, s: [(name.replace(".fla", ""), weight)]  # noqa: E731
_RWKV7: Mapping[str, Move] = {
    r"time_mix_lerp_fused": _shares,
    r"attention\.x_x\.": as_named("{layer}.time_mix_lerp_fused.weight", _shares),
    r"layers\.0\.attention\.a[012]\.fla\.": _to_both(_WITHOUT_FLA),
    r"attention\.[wavg][012]\.fla\.": _WITHOUT_FLA,
    r"layers\.0\.attention\.v[012]\.": lambda name, weight, s: [],
    r"layers\.0\.attention\.a[012]\.": _to_both(_bare_lora),
    r"attention\.[wavg][012]\.": _bare_lora,
    r"attention\.(r_k|k_k|k_a)\.": _flat,
    r"feed_forward\.x_k\.": _flat,
}


def _row(architecture: str, keys: Any, moves: Mapping[str, Move], letters: str) -> Family:
    shares = _numbered(letters, r"(?<=attention)\.x_{}$")
    return Family(
        architecture,
        keys,
        moves,
        renames={**_NAMES7, **shares, **_SUFFIX},
        implied=own_activation,
    )


_rwkv7_row = _row("rwkv7", _rwkv7, _RWKV7, "rwkvag")

ROWS: Mapping[str, Family] = {
    "Rwkv6ForCausalLM": Family("rwkv6", _rwkv6, _RWKV6, renames={**_SHARES6, **_SUFFIX}),
    "RWKV6Qwen2ForCausalLM": Family(
        "rwkv6qwen2", _rwkv6qwen2, _RWKV6QWEN2, renames={**_SHARES6, **_SUFFIX}
    ),
    "Rwkv7ForCausalLM": _rwkv7_row,
    "RWKV7ForCausalLM": _rwkv7_row,
    "RwkvHybridForCausalLM": _row("arwkv7", _arwkv7, _RWKV7, "rwkvag"),
}
