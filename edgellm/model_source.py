"""What a model is loaded from. Data only."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgellm.types import LoadOptions


@dataclass(frozen=True)
class Source:
    """What a model is loaded from, at first and after it has gone.

    draft: the file of a smaller model that guesses for it. keep_alive: seconds that it stays
    unused; None: until another one needs its memory.
    """

    path: Path
    name: str
    options: LoadOptions
    sampling: Mapping[str, float]
    draft: Path | None = None
    keep_alive: float | None = None
