"""The choice of one answer's tokens, one after the other. Knows nothing of models or batches."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from edgellm.errors import RequestError
from edgellm.kernels.draw import MOST_BANNED, MOST_FILTERS, Draw
from edgellm.sampling.candidates import Candidates, Float32
from edgellm.sampling.chain import choice_of, num_best, parted, penalties_of
from edgellm.sampling.choice import fresh
from edgellm.sampling.draws import uniform
from edgellm.sampling.few import FILTERS, MOST_FEW, few_draw
from edgellm.sampling.find import Find, find_best, greedy
from edgellm.sampling.step import Step, Vocabulary
from edgellm.sampling_params import SamplingParams

Allowed = npt.NDArray[np.bool_]


class Sampler:
    """Draws depend on seed, sample_index and position alone, and on what was drawn before where a
    sampler remembers it. biases: added to the logits of these token ids; -inf bans. find: what
    find_best finds, perhaps faster.
    """

    def __init__(
        self,
        params: SamplingParams,
        vocabulary: Vocabulary,
        *,
        seed: int,
        sample_index: int = 0,
        biases: Mapping[int, float] | None = None,
        find: Find = find_best,
    ) -> None:
        self._step = Step(params, (), vocabulary, seed, sample_index)
        self._samplers, self._few = parted(params)
        self._penalties = penalties_of(params)
        self._choose = choice_of(params)
        self._memory = fresh(params)
        self._ends = np.array(sorted(vocabulary.eog_ids), np.intp)
        banned = dict.fromkeys(vocabulary.eog_ids, -math.inf)
        self._biases = _Biases(biases or {})
        self._early_biases = _Biases({**(biases or {}), **banned})  # before the answer may end
        self._min_tokens = math.inf if params.ignore_eos else params.min_tokens
        self._find = find
        self._kept = max(1, num_best(params) or 0)  # candidates after top-k, or the best one
        is_short = self._choose is None or self._few is not None
        self._sought = self.num_best if is_short else None
        if self._sought is not None and self._sought > MOST_FEW:
            self._sought = None

    @property
    def num_best(self) -> int | None:
        """So many of the largest logits of a row decide every draw, of equals those of lower ids:
        others may be -inf. None: all may."""
        number = num_best(self._step.params)
        biases = self._early_biases if self._min_tokens > 0 else self._biases
        if number is None or (biases.values > 0).any():
            return None
        return number + len(biases.ids)  # of which so many may be lowered

    def draw(self, num_generated: int, most: int) -> tuple[Draw, float] | None:
        """How tokens are drawn from logits as `sample` draws them, and for how many from here on,
        at most so many; None where only `sample` can. num_generated: as there."""
        is_early = num_generated < self._min_tokens
        draw = self._early_draw if is_early else self._late_draw
        if draw is None:
            return None
        return draw, min(most, self._min_tokens - num_generated) if is_early else most

    @cached_property
    def _early_draw(self) -> Draw | None:
        return self._draw(self._early_biases)

    @cached_property
    def _late_draw(self) -> Draw | None:
        return self._draw(self._biases)

    def _draw(self, biases: "_Biases") -> Draw | None:
        """With biases that do nothing but ban."""
        step, few = self._step, self._few or ()
        banned = tuple(biases.by_id)
        if self._sought is None or any(bias != -math.inf for bias in biases.by_id.values()):
            return None
        if len(banned) > MOST_BANNED or len(few) > MOST_FILTERS or not FILTERS.keys() >= set(few):
            return None
        named = ((*FILTERS[each], step.params) for each in few)
        return Draw(
            sought=self._sought,
            kept=1 if self._few is None else self._kept,
            banned=banned,
            filters=tuple((name, number(params)) for name, number, params in named),
            min_keep=max(1, step.params.min_keep),
            seed=step.seed,
            sample_index=step.sample_index,
        )

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
        if self._sought is not None and allowed is None:
            values, ids = self._find(logits, self._sought)
            biases = self._biases_at(num_generated)
            return self._choose_few(*_biased(values, ids, biases.by_id), history)
        greedy(logits)  # an error when they are no numbers
        prepared = self._prepare(logits, num_generated, allowed)
        step = replace(self._step, history=history, end=self._likeliest_end(prepared))
        candidates = Candidates(prepared)
        for sampler in self._samplers:
            candidates = sampler(candidates, step)
        if self._choose is None:
            return candidates.token(int(candidates.logits.argmax()))
        if self._few is not None:
            assert candidates.token_ids is not None  # top-k has put them in order
            ids = candidates.token_ids.tolist()
            return self._choose_few(candidates.logits.tolist(), ids, history)
        token, self._memory = self._choose(candidates, step, self._memory)
        return token

    def _choose_few(self, values: list[float], ids: list[int], history: Sequence[int]) -> int:
        """Of candidates that are sorted best first."""
        if self._few is None:
            return ids[0]
        step, largest = self._step, values[0]
        distances = [value - largest for value in values[: self._kept]]
        for few in self._few:
            distances = few(distances, step.params)
        share = uniform(step.seed, step.sample_index, len(history))
        return ids[few_draw(distances, share)]

    def banned(self, num_generated: int) -> list[int]:
        """The tokens that are never drawn here."""
        biases = self._biases_at(num_generated).by_id.items()
        return [token for token, bias in biases if bias == -math.inf]

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

    def _biases_at(self, num_generated: int) -> "_Biases":
        return self._early_biases if num_generated < self._min_tokens else self._biases

    def _prepare(self, logits: Float32, num_generated: int, allowed: Allowed | None) -> Float32:
        """The logits with biases, bans and -inf for what is not allowed: where samplers begin."""
        biases = self._biases_at(num_generated)
        if not len(biases.ids) and allowed is None:
            return logits
        if len(biases.ids):
            logits = logits.copy()
            logits[biases.ids] += biases.values
        if allowed is not None:
            logits = np.where(allowed, logits, np.float32(-np.inf))
        if logits.max() == -np.inf:
            raise RequestError(_ALL_BANNED)
        return logits

    def _likeliest_end(self, logits: Float32) -> int | None:
        ends = logits[self._ends]
        if not len(ends) or ends.max() == -np.inf:
            return None
        return int(self._ends[ends.argmax()])


class _Biases:
    """What is added to the logits of some tokens: by id, and as arrays ids (n,), values (n,)."""

    def __init__(self, by_id: Mapping[int, float]) -> None:
        self.by_id = dict(by_id)
        self.ids = np.array(list(by_id), np.intp)
        self.values = np.array(list(by_id.values()), np.float32)


_ALL_BANNED = "logit_bias or ignore_eos bans all tokens that may come next"


def _biased(
    values: list[float], ids: list[int], biases: Mapping[int, float]
) -> tuple[list[float], list[int]]:
    """Candidates in order again, with biases on some of their logits."""
    if not biases or biases.keys().isdisjoint(ids):
        return values, ids
    lowered = [value + biases.get(token, 0.0) for value, token in zip(values, ids, strict=True)]
    order = sorted(range(len(ids)), key=lambda place: (-lowered[place], ids[place]))
    if lowered[order[0]] == -math.inf:
        raise RequestError(_ALL_BANNED)
    return [lowered[place] for place in order], [ids[place] for place in order]
