"""How many residual streams a model has, from a file's metadata. Knows no tensors."""

from dataclasses import dataclass

from edgellm.models.keys import Keys

MAX_STREAMS = 64


@dataclass(frozen=True)
class AltUpConfig:
    """streams: of hidden_size each. active: the one that goes through the blocks of a layer."""

    streams: int
    active: int


def read_altup(keys: Keys) -> AltUpConfig:
    """Files of before the keys hold the two models of Gemma 3n, with four streams."""
    streams = keys.integer("altup.num_inputs", 1, MAX_STREAMS, default=4)
    return AltUpConfig(streams, keys.integer("altup.active_idx", 0, streams - 1, default=0))
