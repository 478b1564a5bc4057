"""Adapter files of a model that is being loaded: from the words of an option to open files."""

import math
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from edgellm.errors import RequestError
from edgellm.gguf_loader import open_gguf
from edgellm.models import Adapter, read_adapter
from edgellm.paths import typed_path
from edgellm.types import AdapterInfo

_MAX_SCALE = 1e6


@dataclass(frozen=True, eq=False)
class AdapterFiles:
    """Open adapters in their order. `close` once no program uses them."""

    infos: tuple[AdapterInfo, ...]
    adapters: tuple[Adapter, ...]
    _files: ExitStack

    def close(self) -> None:
        self._files.close()


def parse_adapter(text: str) -> AdapterInfo:
    """FILE or FILE:SCALE; the adapter is named after its file. RequestError for anything else."""
    path, colon, scale = text.rpartition(":")
    try:
        number = float(scale) if colon else None
    except ValueError:
        number = None
    if number is None:
        path, number = text, 1.0
    return AdapterInfo(Path(path).stem, str(typed_path(path)), checked_scale(path, number))


def checked_scale(name: str, scale: float) -> float:
    """The scale itself; RequestError unless it is a finite number of a sensible size."""
    is_number = isinstance(scale, (int, float)) and not isinstance(scale, bool)
    if not is_number or not math.isfinite(scale) or abs(scale) > _MAX_SCALE:
        raise RequestError(
            f"the scale of adapter {name} is {scale!r}: expected a number", "adapters"
        )
    return float(scale)


def open_adapters(texts: Iterable[str], architecture: str) -> AdapterFiles:
    """The adapters for a model of `architecture`. GGUFError for a file, RequestError for a word."""
    infos = tuple(parse_adapter(text) for text in texts)
    names = [info.name for info in infos]
    for name in names:
        if names.count(name) > 1:
            raise RequestError(f"two adapters are named {name}: rename a file", "adapters")
    with ExitStack() as files:
        adapters = tuple(
            read_adapter(files.enter_context(open_gguf(info.path)), info.name, architecture)
            for info in infos
        )
        return AdapterFiles(infos, adapters, files.pop_all())
