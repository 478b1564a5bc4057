"""Split models: `NAME-00001-of-0000N.gguf`. Knows the names and the `split.*` keys."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from edgellm.errors import GGUFError
from edgellm.gguf_loader.part import Part
from edgellm.gguf_loader.reader import quoted
from edgellm.gguf_loader.values import describe

_NAME = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf", re.DOTALL | re.ASCII)


def part_paths(path: Path) -> tuple[Path, ...]:
    """The files of the model that `path` belongs to, in order; just `path` when it is not split."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        return (path,)
    stem, number, count = match[1], int(match[2]), int(match[3])
    if not 1 <= number <= count:
        raise GGUFError(f"{path}: its name says part {number} of {count}")
    if not os.path.exists(path):
        return (path,)  # the caller says that it is missing
    paths = []
    for i in range(1, count + 1):
        part = path.with_name(f"{stem}-{i:05}-of-{count:05}.gguf")
        if not os.path.exists(part):
            raise GGUFError(f"{path}: part {i} of {count} is missing, expected {part}")
        paths.append(part)
    return tuple(paths)


def check_parts(parts: Sequence[Part]) -> None:
    """Check that the parts say the same as their names, and that together they are complete."""
    if len(parts) == 1 and _integer(parts[0], "split.count") in (None, 0):
        return  # never split, or merged: llama.cpp's merging leaves a count of 0
    tensors: dict[str, Part] = {}
    for number, part in enumerate(parts):
        _expect(part, "split.count", len(parts))
        _expect(part, "split.no", number)
        if part.byte_order != parts[0].byte_order:
            raise GGUFError(f"{part.path}: is {part.byte_order}-endian and the first part is not")
        for name in part.tensors:
            if name in tensors:
                raise GGUFError(
                    f"{part.path}: the tensor {quoted(name)} is also in {tensors[name].path}"
                )
            tensors[name] = part
    for part in parts:
        _expect(part, "split.tensors.count", len(tensors))


def _expect(part: Part, key: str, expected: int) -> None:
    value = _integer(part, key)
    if value is None:
        raise GGUFError(f"{part.path}: the key '{key}' is missing, expected {expected}")
    if value != expected:
        hint = ""
        if key == "split.count":
            hint = ": open the parts under the names NAME-00001-of-0000N.gguf they came with"
        raise GGUFError(f"{part.path}: the key '{key}' is {value}, expected {expected}{hint}")


def _integer(part: Part, key: str) -> int | None:
    value = part.metadata.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise GGUFError(f"{part.path}: the key '{key}' is {describe(value)}, expected an integer")
    return value
