"""A model's folder as published: its settings, and its tensors over all shards.

Pickle files are programs: they are never opened.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgellm.convert.safetensors import Stored, read_safetensors
from edgellm.errors import GGUFError

_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")
_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.safetensors")
_MOST = 1 << 28  # bytes of a JSON file


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """folder: where it lies. config: of config.json. tensors: by their names in the files."""

    folder: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, Stored]


def open_checkpoint(folder: Path) -> Checkpoint:
    """Opens a folder. GGUFError names what is missing, damaged or cannot be used."""
    if not folder.is_dir():
        raise GGUFError(f"{folder}: is no folder, expected one with config.json and safetensors")
    config = read_json(folder / "config.json")
    return Checkpoint(folder, config, _tensors(folder))


def read_json(path: Path) -> dict[str, Any]:
    """An object in a JSON file; GGUFError when it is missing or something else."""
    value = _read(path)
    if not isinstance(value, dict):
        raise GGUFError(f"{path}: holds no object")
    return value


def read_optional_list(path: Path) -> list[dict[str, Any]]:
    """Objects in a list; [] where there is no such file."""
    value = _read(path) if path.exists() else []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise GGUFError(f"{path}: holds no list of objects")
    return value


def _read(path: Path) -> Any:
    try:
        if path.stat().st_size > _MOST:
            raise GGUFError(f"{path}: is larger than {_MOST >> 20} MiB")
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise GGUFError(f"{path}: there is no such file") from None
    except (OSError, ValueError, RecursionError) as error:
        raise GGUFError(f"{path}: is no JSON: {error}") from None


def read_optional_json(path: Path) -> dict[str, Any]:
    """As read_json; {} where there is no such file."""
    return read_json(path) if path.exists() else {}


def _tensors(folder: Path) -> dict[str, Stored]:
    if (folder / _INDEX).exists():
        return _sharded(folder)
    if (folder / _SINGLE).exists():
        return read_safetensors(folder / _SINGLE)
    numbered = _numbered(folder)
    if numbered:
        return numbered
    if any(path for pattern in _PICKLES for path in folder.glob(pattern)):
        raise GGUFError(
            f"{folder}: holds pickle files alone, which can run programs when they are read: "
            "get the model as safetensors"
        )
    raise GGUFError(f"{folder}: there is no {_SINGLE} and no {_INDEX}")


def _sharded(folder: Path) -> dict[str, Stored]:
    """The index says which file holds a tensor; each must be there, and have it."""
    places = read_json(folder / _INDEX).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise GGUFError(f"{folder / _INDEX}: has no weight_map")
    names = sorted(set(places.values()))
    for name in names:
        if Path(name).name != name:
            raise GGUFError(f"{folder / _INDEX}: names the file {name!r} outside the folder")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise GGUFError(
            f"{folder}: {len(missing)} of {len(names)} files are missing: {', '.join(missing[:5])}"
        )
    shards = {name: read_safetensors(folder / name) for name in names}
    for tensor, name in places.items():
        if tensor not in shards[name]:
            raise GGUFError(f"{folder / name}: lacks the tensor {tensor!r}, which the index names")
    return _merged(shards.values())


def _numbered(folder: Path) -> dict[str, Stored]:
    """Shards without an index say in their names how many they are."""
    found = {path.name: path for path in folder.glob("*.safetensors")}
    counts = {int(match[3]) for name in found if (match := _SHARD.fullmatch(name))}
    prefixes = {match[1] for name in found if (match := _SHARD.fullmatch(name))}
    if len(counts) != 1 or len(prefixes) != 1:
        return {}
    (count,), (prefix,) = counts, prefixes
    names = [f"{prefix}-{i:05}-of-{count:05}.safetensors" for i in range(1, count + 1)]
    missing = [name for name in names if name not in found]
    if missing:
        raise GGUFError(
            f"{folder}: {len(missing)} of {count} files are missing: {', '.join(missing[:5])}"
        )
    return _merged([read_safetensors(found[name]) for name in names])


def _merged(shards: Iterable[Mapping[str, Stored]]) -> dict[str, Stored]:
    merged: dict[str, Stored] = {}
    for shard in shards:
        for name, stored in shard.items():
            if name in merged:
                raise GGUFError(
                    f"{stored.path}: has the tensor {name!r}, as {merged[name].path} has too"
                )
            merged[name] = stored
    return merged
