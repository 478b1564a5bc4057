"""Which loaded model a user's word means."""

from pathlib import Path

from edgellm.paths import typed_file
from edgellm.types import ModelInfo


def is_meant(info: ModelInfo, model: str) -> bool:
    """Whether a model's name or the path of its file is meant; a file goes before a name."""
    if (path := typed_file(model)) is not None:
        return path.resolve() == Path(info.path).resolve()
    return model.lower() == info.name.lower()
