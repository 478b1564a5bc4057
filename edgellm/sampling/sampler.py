"""The choice of one answer's tokens, one after the other. Knows nothing of models or batches."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgellm.errors import EdgeLLMError, RequestError
from edgellm.sampling.candidates import Candidates, Float32, Ids
from edgellm.sampling.chain import choice_of, num_best, penalties_of, samplers_of
from edgellm.sampling.choice import fresh
from edgellm.sampling.step import Step, Vocabulary
from edgellm.sampling_params import SamplingParams

Allowed = npt.NDArray[np.bool_]


class Sampler:
    """Draws depend on seed, sample_index and position alone, and on what was drawn before where a
    sampler remembers it. biases: added to the logits of these token ids; -inf bans.
    """

    def __init__(
        self,
        params: SamplingParams,
        vocabulary: Vocabulary,
        *,
        seed: int,
        sample_index: int = 0,
        biases: Mapping[int, float] | None = None,
    ) -> None:
        self._step = Step(params, (), vocabulary, seed, sample_index)
        self._samplers = samplers_of(params)
        self._penalties = penalties_of(params)
        self._choose = choice_of(params)
        self._takes_best = not self._samplers and self._choose is None
        self._memory = fresh(params)
        self._ends = np.array(sorted(vocabulary.eog_ids), np.intp)
        banned = dict.fromkeys(vocabulary.eog_ids, -math.inf)
        self._biases = _arrays(biases or {})
        self._early_biases = _arrays({**(biases or {}), **banned})  # before the answer may end
        self._min_tokens = math.inf if params.ignore_eos else params.min_tokens

    @property
    def num_best(self) -> int | None:
        """So many of the largest logits of a row decide every draw, of equals those of lower ids:
        others may be -inf. None: all may."""
        number = num_best(self._step.params)
        biases = (self._early_biases if self._min_tokens > 0 else self._biases)[1]
        if number is None or (biases > 0).any():
            return None
        return number + len(biases)  # of which so many may be lowered

    def sample(
        self,
        logits: Float32,
        history: Sequence[int],
        num_generated: int = 0,
        allowed: Allowed | None = None,
    ) -> int:
        """The next token id for logits (vocab_size,). history: every token so far, the last
        `num_generated` of which are the answer's. allowed: (vocab_size,), None is all. Equal
        logits: the lowest id wins. RequestError when bans leave none of those allowed."""
        best = greedy(logits)
        prepared = self._prepare(logits, num_generated, allowed)
        if self._takes_best and prepared is logits:
            return best
        step = replace(self._step, history=history, end=self._likeliest_end(prepared))
        candidates = Candidates(prepared)
        for sampler in self._samplers:
            candidates = sampler(candidates, step)
        if self._choose is None:
            return candidates.token(int(candidates.logits.argmax()))
        token, self._memory = self._choose(candidates, step, self._memory)
        return token

    def banned(self, num_generated: int) -> list[int]:
        """The tokens that are never drawn here."""
        ids, biases = self._early_biases if num_generated < self._min_tokens else self._biases
        return [int(token) for token in ids[biases == -np.inf]]

    def penalised(
        self,
        logits: Float32,
        history: Sequence[int],
        num_generated: int,
        allowed: Allowed | None = None,
    ) -> Float32:
        """The logits (vocab_size,) with biases, bans and penalties, nothing drawn; as `sample`."""
        greedy(logits)  # an error when they are no numbers
        candidates = Candidates(self._prepare(logits, num_generated, allowed))
        step = replace(self._step, history=history)
        for sampler in self._penalties:
            candidates = sampler(candidates, step)
        return candidates.logits

    def _prepare(self, logits: Float32, num_generated: int, allowed: Allowed | None) -> Float32:
        """The logits with biases, bans and -inf for what is not allowed: where samplers begin."""
        ids, biases = self._early_biases if num_generated < self._min_tokens else self._biases
        if not len(ids) and allowed is None:
            return logits
        if len(ids):
            logits = logits.copy()
            logits[ids] += biases
        if allowed is not None:
            logits = np.where(allowed, logits, np.float32(-np.inf))
        if logits.max() == -np.inf:
            raise RequestError("logit_bias or ignore_eos bans all tokens that may come next")
        return logits

    def _likeliest_end(self, logits: Float32) -> int | None:
        ends = logits[self._ends]
        if not len(ends) or ends.max() == -np.inf:
            return None
        return int(self._ends[ends.argmax()])


def greedy(logits: Float32) -> int:
    """The most likely token id; the lowest of equals."""
    best = int(logits.argmax())  # a NaN, if there is one, comes out here
    if not np.isfinite(logits[best]):
        raise EdgeLLMError(f"the largest logit is {logits[best]}: the model file may be damaged")
    return best


def _arrays(biases: Mapping[int, float]) -> tuple[Ids, Float32]:
    ids = np.array(list(biases), np.intp)
    return ids, np.array(list(biases.values()), np.float32)
