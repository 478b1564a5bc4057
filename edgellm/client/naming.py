"""Which loaded model a user's word means."""

from dataclasses import dataclass
from pathlib import Path

from edgellm.client.protocol import Client
from edgellm.paths import typed_file
from edgellm.types import ModelInfo


@dataclass(frozen=True)
class Served:
    """What answers, and its name for the model."""

    client: Client
    model: str


def is_meant(info: ModelInfo, model: str) -> bool:
    """Whether a model's name or the path of its file is meant; a file goes before a name."""
    if (path := typed_file(model)) is not None:
        return path.resolve() == Path(info.path).resolve()
    return model.lower() == info.name.lower()
