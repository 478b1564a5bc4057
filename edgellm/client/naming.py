"""Which loaded model a user's word means."""

from pathlib import Path

from edgellm.types import ModelInfo


def is_meant(info: ModelInfo, model: str) -> bool:
    """Whether a model's name or the path of its file is meant; a file goes before a name."""
    path = Path(model).expanduser()
    if path.is_file():
        return path.resolve() == Path(info.path).resolve()
    return model.lower() == info.name.lower()
