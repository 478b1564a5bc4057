"""Heads that predict further tokens (MTP): checkpoints have them as layers behind the model's, or
beside them, and GGUF always behind. Knows no other tensors.

Sources: DeepSeek-AI 2024 (DeepSeek-V3) and the published code of Qwen3-Next, MiMo and GLM-4.5.
"""

import re
from collections.abc import Iterable, Mapping

from edgellm.convert.settings import Settings
from edgellm.errors import GGUFError

_MOST = 1 << 10  # heads of a model
_BESIDE = re.compile(r"(?:model\.)?mtp\.layers\.(\d+)\.(.+)")
_ONCE = re.compile(r"(?:model\.)?mtp\.(.+)\.(weight|bias)")
_BEHIND = re.compile(r"(model\.(?:language_model\.)?layers)\.(\d+)\.(.+)")
_OF_HEAD = re.compile(r"model\.layers\.(\d+)\.(?:transformer\.)?(.+)\.(weight|bias)")
# Of a head that all heads share, as if it were the first one's.
_SHARED: Mapping[str, str] = {
    "fc": "eh_proj",
    "pre_fc_norm_embedding": "enorm",
    "pre_fc_norm_hidden": "hnorm",
    "norm": "shared_head.norm",
}
# What layers of heads have beside a layer of the model, under GGUF's names.
_NAMES: Mapping[str, str] = {
    "eh_proj": "eh_proj",
    "enorm": "enorm",
    "hnorm": "hnorm",
    "embed_tokens": "embed_tokens",
    "shared_head.head": "shared_head_head",
    "shared_head.output": "shared_head_head",
    "shared_head.norm": "shared_head_norm",
    "final_layernorm": "shared_head_norm",
}


def behind_layers(name: str, layers: int) -> str:
    """The name that a head's tensor has as one of a layer behind all `layers`; others stay."""
    if found := _BESIDE.fullmatch(name):
        return f"model.layers.{layers + int(found[1])}.{found[2]}"
    if (found := _ONCE.fullmatch(name)) and found[1] in _SHARED:
        return f"model.layers.{layers}.{_SHARED[found[1]]}.{found[2]}"
    return name


def is_of_head(name: str, layers: int, heads: int) -> bool:
    """Whether a name of a checkpoint is of one of `heads` layers behind the model's."""
    found = _BEHIND.match(behind_layers(name, layers))
    return found is not None and layers <= int(found[2]) < layers + heads


def gguf_name(name: str) -> str | None:
    """GGUF's name of what only heads have."""
    found = _OF_HEAD.fullmatch(name)
    if found is None or found[2] not in _NAMES:
        return None
    return f"blk.{found[1]}.nextn.{_NAMES[found[2]]}.{found[3]}"


def count_heads(names: Iterable[str], settings: Settings) -> int:
    """How many heads a checkpoint's names have: all that lie beside the model, and behind it as
    many as config.json says at most. GGUFError for a number that no model has."""
    layers = settings.layers
    told = settings.optional_integer("num_nextn_predict_layers") or 0
    count = 0
    for name in names:
        moved = behind_layers(name, layers)
        if moved != name or is_of_head(name, layers, told):
            found = _BEHIND.match(moved)
            number = int(found[2]) + 1 - layers if found else 0
            if number > _MOST:
                raise GGUFError(f"{name!r} is of head {number}, expected at most {_MOST}")
            count = max(count, number)
    return count
