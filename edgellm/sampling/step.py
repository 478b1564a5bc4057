"""What a sampler may look at besides the candidates. Knows nothing of models or batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgellm.sampling.draws import uniform
from edgellm.sampling_params import SamplingParams


class Vocabulary(Protocol):
    """What samplers ask of a tokenizer. eog_ids: the tokens that end a generation."""

    @property
    def eog_ids(self) -> frozenset[int]: ...
    def token_bytes(self, token_id: int, /) -> bytes: ...


@dataclass(frozen=True, eq=False)
class Step:
    """The choice of one token. history: every token so far, the prompt included.

    seed: 0 to 2^64 - 1. sample_index: which of the answers to one prompt. end: the likeliest
    token that would end the answer; None when it may not end here.
    """

    params: SamplingParams
    history: Sequence[int]
    vocabulary: Vocabulary
    seed: int = 0
    sample_index: int = 0
    end: int | None = None

    def uniform(self, purpose: int = 0) -> float:
        """A number in [0, 1) that depends on seed, answer, position and purpose alone."""
        return uniform(self.seed, self.sample_index, len(self.history), purpose)


def last(tokens: Sequence[int], count: int) -> Sequence[int]:
    """The last `count` tokens; all of them for -1."""
    return tokens if count < 0 else tokens[max(0, len(tokens) - count) :]
