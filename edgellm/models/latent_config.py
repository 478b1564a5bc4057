"""Sizes of multi-head latent attention, from a file's metadata. Knows no tensors."""

import math
from dataclasses import dataclass

from edgellm.models.keys import Keys
from edgellm.models.rope import RopeScaling

MAX_WIDTH = 1 << 20


@dataclass(frozen=True)
class LatentConfig:
    """Widths in elements.

    rank: of the latent that keys and values of all heads are made from. query_rank: the same for
    queries, 0 where they come from the hidden state. plain_dim, rope_dim: numbers of a query or key
    without and with a position. value_dim: of a value. score_factor: multiplies attention scores.
    """

    rank: int
    query_rank: int
    plain_dim: int
    rope_dim: int
    value_dim: int
    score_factor: float

    @property
    def head_dim(self) -> int:
        """Numbers of a query or key."""
        return self.plain_dim + self.rope_dim


def read_latent(
    keys: Keys,
    head_dim: int,
    value_dim: int,
    rope_dim: int,
    scaling: RopeScaling,
    layers: str = "",
) -> LatentConfig | None:
    """None for a model without latent attention. GGUFError as for any other key.

    head_dim, value_dim: what the file says of keys and values; newer files mean those of the
    latent, and give those of a head in keys of their own. layers: the end of the keys' names, of
    some layers alone.
    """
    rank = keys.integer(f"attention.kv_lora_rank{layers}", 0, MAX_WIDTH, default=0)
    if rank == 0:
        return None
    own_key, own_value = (
        keys.integer(f"attention.{kind}_length_mla{layers}", 0, MAX_WIDTH, default=0) or width
        for kind, width in (("key", head_dim), ("value", value_dim))
    )
    if own_key < rope_dim:
        raise keys.refuse("rope.dimension_count", rope_dim, f"at most a key's {own_key}")
    return LatentConfig(
        rank=rank,
        query_rank=keys.integer("attention.q_lora_rank", 0, MAX_WIDTH, default=0),
        plain_dim=own_key - rope_dim,
        rope_dim=rope_dim,
        value_dim=own_value,
        score_factor=_score_factor(scaling),
    )


def _score_factor(scaling: RopeScaling) -> float:
    """Yarn sharpens the scores of these models, and leaves cosines and sines as they are.

    The file's multiplier is a tenth of `mscale_all_dim`. Source: DeepSeek-V2's modeling code.
    """
    if scaling.kind != "yarn":
        return 1.0
    return (1 + scaling.log_multiplier * math.log(max(scaling.factor, 1.0))) ** 2
