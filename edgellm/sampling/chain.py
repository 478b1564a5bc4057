"""Which samplers run, and in which order: llama.cpp's, or the user's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgellm.sampling.candidates import Candidates
from edgellm.sampling.choice import Memory, adaptive_p, mirostat, mirostat_v2, plain
from edgellm.sampling.dry import dry
from edgellm.sampling.few import MOST_FEW, Few, few_min_p, few_temperature, few_top_p
from edgellm.sampling.filters import min_p, top_k, top_n_sigma, top_p, typical_p, xtc
from edgellm.sampling.infill import infill
from edgellm.sampling.penalties import penalties
from edgellm.sampling.step import Step
from edgellm.sampling.temperature import is_greedy, temperature
from edgellm.sampling_params import SamplingParams

Sampler = Callable[[Candidates, Step], Candidates]
Choice = Callable[[Candidates, Step, Memory], tuple[int, Memory]]


@dataclass(frozen=True)
class Row:
    """sampler: what it does. is_on: False when it would change nothing. keeps_best: the best
    candidate stays the best. is_penalty: it changes logits by the text so far, and drops none.
    few: the same for few candidates, best first; None: there is none."""

    sampler: Sampler
    is_on: Callable[[SamplingParams], bool]
    keeps_best: bool = False
    is_penalty: bool = False
    few: Few | None = None


def _penalises(p: SamplingParams) -> bool:
    changes = (p.repeat_penalty, p.presence_penalty, p.frequency_penalty) != (1.0, 0.0, 0.0)
    return changes and p.repeat_last_n != 0


# By the names of SAMPLERS; adaptive_p is a choice.
ROWS: Mapping[str, Row] = {
    "penalties": Row(penalties, _penalises, is_penalty=True),
    "dry": Row(
        dry, lambda p: p.dry_multiplier > 0.0 and p.dry_penalty_last_n != 0, is_penalty=True
    ),
    "top_n_sigma": Row(top_n_sigma, lambda p: p.top_n_sigma > 0.0, keeps_best=True),
    "top_k": Row(top_k, lambda p: p.top_k > 0, keeps_best=True),
    "typ_p": Row(typical_p, lambda p: p.typical_p < 1.0),
    "top_p": Row(top_p, lambda p: p.top_p < 1.0, keeps_best=True, few=few_top_p),
    "min_p": Row(min_p, lambda p: p.min_p > 0.0, keeps_best=True, few=few_min_p),
    "xtc": Row(xtc, lambda p: p.xtc_probability > 0.0),
    "temperature": Row(temperature, lambda p: True, keeps_best=True, few=few_temperature),
    "infill": Row(infill, lambda p: True),
}


def rows_of(params: SamplingParams) -> tuple[Row, ...]:
    """What runs before the choice, in order."""
    rows = [ROWS[name] for name in _names(params) if name in ROWS and ROWS[name].is_on(params)]
    if _takes_best(params):
        while rows and rows[-1].keeps_best:
            rows.pop()  # the choice takes the best
    return tuple(rows)


def parted(params: SamplingParams) -> tuple[tuple[Sampler, ...], tuple[Few, ...] | None]:
    """What runs on candidates, and on the few that top-k leaves after that; None: on none, and the
    choice is made among candidates."""
    rows = rows_of(params)
    samplers = tuple(row.sampler for row in rows)
    if top_k not in samplers or choice_of(params) is not plain or params.dynatemp_range > 0.0:
        return samplers, None
    after = samplers.index(top_k) + 1
    few = tuple(row.few for row in rows[after:] if row.few is not None)
    is_few = max(params.top_k, params.min_keep) <= MOST_FEW and len(few) == len(rows) - after
    return (samplers[:after], few) if is_few else (samplers, None)


def penalties_of(params: SamplingParams) -> tuple[Sampler, ...]:
    """Those of the samplers that leave every candidate in, in order."""
    rows = [ROWS[name] for name in params.samplers if name in ROWS and ROWS[name].is_penalty]
    return tuple(row.sampler for row in rows if row.is_on(params))


def num_best(params: SamplingParams) -> int | None:
    """So many of the largest logits decide what is drawn, of equals those of lower ids; None: all
    may."""
    samplers = tuple(row.sampler for row in rows_of(params))
    if infill in samplers:  # looks at what ends the answer
        return None
    if not samplers:
        return 1 if choice_of(params) is None else None
    return max(params.top_k, params.min_keep) if samplers[0] is top_k else None


def choice_of(params: SamplingParams) -> Choice | None:
    """How the token is drawn from what is left; None takes the best."""
    if _takes_best(params):
        return None
    if params.mirostat:
        return mirostat if params.mirostat == 1 else mirostat_v2
    is_adaptive = "adaptive_p" in params.samplers and params.adaptive_target >= 0.0
    return adaptive_p if is_adaptive else plain


def _names(params: SamplingParams) -> tuple[str, ...]:
    """Mirostat wants the temperature alone before it."""
    return ("temperature",) if params.mirostat else params.samplers


def _takes_best(params: SamplingParams) -> bool:
    return is_greedy(params) and "temperature" in _names(params)
