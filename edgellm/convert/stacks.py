"""Tensors that checkpoints number, and GGUF has as one. Knows no families."""

import re
from collections.abc import Mapping
from itertools import count

from edgellm.convert.moves import layer_of
from edgellm.convert.weight import Weight, squeezed, stacked

_EXPERT = re.compile(r"(.*)\b(chunk_)?experts\.(\d+)\.(.+)")
_EXPERT_PARTS = {
    **{"w1": "gate", "w2": "down", "w3": "up"},
    **{"gate_proj": "gate", "down_proj": "down", "up_proj": "up"},
    **{"gate": "gate", "down": "down", "up": "up"},
}


def stack_experts(tensors: Mapping[str, Weight]) -> dict[str, Weight]:
    """Tensors of single experts as one for each part, under GGUF's names.

    GGUFError names an expert that is missing.
    """
    found: dict[str, dict[int, Weight]] = {}
    rest: dict[str, Weight] = {}
    for name, weight in tensors.items():
        match = _EXPERT.fullmatch(name)
        path, _, suffix = match[4].rpartition(".") if match else ("", "", "")
        if match is None or path not in _EXPERT_PARTS:
            rest[name] = weight
            continue
        kind = "chexps" if match[2] else "exps"
        new = f"{layer_of(name)}.ffn_{_EXPERT_PARTS[path]}_{kind}.{suffix}"
        found.setdefault(new, {})[int(match[3])] = weight
    for new, experts in found.items():
        missing = next(i for i in count() if i not in experts)
        if missing < len(experts):
            raise next(iter(experts.values())).wrong(
                f"expert {missing} of {max(experts) + 1} is missing ({new})"
            )
        whole = stacked([experts[i] for i in range(len(experts))])
        rest[new] = squeezed(whole) if whole.columns == 1 else whole
    return rest


# Tensors that are numbered in checkpoints, and their name as one.
_NUMBERED: Mapping[re.Pattern[str], str] = {
    re.compile(r".*\.self_attn\.([qk])_layernorm\.norms\.(?P<i>\d+)\.weight"): (
        "{layer}.attn_{0}_norm.weight"
    ),
    re.compile(r"model\.altup_projections\.(?P<i>\d+)\.weight"): "altup_proj.weight",
    re.compile(r"model\.altup_unembed_projections\.(?P<i>\d+)\.weight"): (
        "altup_unembd_proj.weight"
    ),
    re.compile(r".*\.time_shares\.(?P<i>\d+)\.weight"): "{layer}.time_mix_lerp_fused.weight",
}


def stack_numbered(tensors: Mapping[str, Weight]) -> dict[str, Weight]:
    """As one: norms of single heads (StableLM 2), projections of single streams (Gemma 3n), shares
    of the token before (RWKV)."""
    found: dict[str, dict[int, Weight]] = {}
    rest: dict[str, Weight] = {}
    for name, weight in tensors.items():
        match = next((m for p in _NUMBERED if (m := p.fullmatch(name))), None)
        if match is None:
            rest[name] = weight
            continue
        new = _NUMBERED[match.re]
        layer = layer_of(name) if "{layer}" in new else ""
        found.setdefault(new.format(*match.groups(), layer=layer), {})[int(match["i"])] = weight
    return rest | {
        new: stacked([numbered[i] for i in sorted(numbered)]) for new, numbered in found.items()
    }
