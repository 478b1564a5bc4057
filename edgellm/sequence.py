"""One generation in flight, and the share of it that one step computes. Data only."""

from dataclasses import dataclass, field
from typing import Literal

from edgellm.types import SamplingParams

LogitsRows = Literal["none", "last", "all"]


@dataclass(eq=False)
class Sequence:
    """Tokens so far and where their keys and values lie.

    token_ids: prompt, then answer. num_computed_tokens: how many of them are in the cache.
    block_tables: per KV group, the blocks in position order; entries that a sliding window has
    left behind stay in place and are never read again. state_slot: where states of recurrences are
    kept while the sequence runs; None: it does not run. adapter_scales: how much it takes of the
    model's adapters, in their order; those that are missing count as 0. score_from: every position
    from here on has its logits reported, and nothing is generated; None: the last position's, to go
    on from.
    """

    seq_id: int
    token_ids: list[int]
    num_prompt_tokens: int
    params: SamplingParams
    sample_index: int = 0
    score_from: int | None = None
    num_computed_tokens: int = 0
    block_tables: list[list[int]] = field(default_factory=list)
    state_slot: int | None = None
    adapter_scales: tuple[float, ...] = ()


@dataclass(frozen=True)
class Chunk:
    """Rows that a step computes: `count` tokens of `sequence` from its num_computed_tokens on."""

    sequence: Sequence
    count: int
    logits: LogitsRows
