"""What a folder of Sentence Transformers has beside its model: how rows become one embedding, and
projections behind that. Source: the library's modules.json."""

from pathlib import Path

from edgellm.convert.checkpoint import read_optional_json, read_optional_list
from edgellm.convert.keys import Keys
from edgellm.convert.safetensors import read_safetensors
from edgellm.convert.weight import Weight, from_stored
from edgellm.errors import GGUFError, RequestError
from edgellm.types import POOLINGS, Pooling

_MODES: dict[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
}
_NAMES = ("dense_2", "dense_3")  # of projections, in order


def sentence_parts(folder: Path) -> tuple[Keys, dict[str, Weight]]:
    """Keys and tensors; none where the folder has no modules.

    RequestError for what GGUF has no word for.
    """
    keys: Keys = {}
    tensors: dict[str, Weight] = {}
    for module in read_optional_list(folder / "modules.json"):
        kind = str(module.get("type", "")).rsplit(".", 1)[-1]
        path = folder / str(module.get("path", ""))
        if folder.resolve() not in (path.resolve(), path.resolve().parent):
            raise GGUFError(f"{folder / 'modules.json'}: names {path} outside the folder")
        if kind == "Pooling":
            keys["pooling_type"] = POOLINGS.index(_pooling(path))
        elif kind == "Dense":
            if len(tensors) == len(_NAMES):
                raise RequestError(f"{path}: is one projection more than GGUF has names for", "in")
            tensors[f"{_NAMES[len(tensors)]}.weight"] = _projection(path)
    return keys, tensors


def _pooling(path: Path) -> Pooling:
    config = read_optional_json(path / "config.json")
    found = [name for mode, name in _MODES.items() if config.get(mode)]
    others = [m for m, on in config.items() if m.startswith("pooling_mode") and on is True]
    if len(found) != 1 or len(others) != 1:
        raise RequestError(
            f"{path / 'config.json'}: pools by {', '.join(others) or 'nothing'}, expected one of "
            f"{', '.join(_MODES)}",
            "folder",
        )
    return found[0]


def _projection(path: Path) -> Weight:
    config = read_optional_json(path / "config.json")
    activation = str(config.get("activation_function", "Identity")).rsplit(".", 1)[-1]
    tensors = read_safetensors(path / "model.safetensors")
    if activation != "Identity" or set(tensors) != {"linear.weight"}:
        raise RequestError(
            f"{path}: is a projection with {activation} and {', '.join(tensors)}, expected "
            "Identity and linear.weight alone",
            "folder",
        )
    return from_stored(tensors["linear.weight"])
