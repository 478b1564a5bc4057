"""How fast a model reads and writes here, as whoever asks it sees it. `edgellm bench` says more."""

import statistics
from dataclasses import dataclass

from edgellm.llm import Model
from edgellm.types import SamplingParams

_PROMPT, _ANSWER, _TIMES = 256, 32, 3


@dataclass(frozen=True)
class Speed:
    """Tokens per second: medians of three prompts, none of which the cache has."""

    reading: float
    writing: float


def speed(model: Model) -> Speed:
    """Times three prompts of at most 256 tokens with answers of 32."""
    length = min(_PROMPT, model.info.context_length - _ANSWER)
    params = SamplingParams(temperature=0, max_tokens=_ANSWER, seed=0, ignore_eos=True)
    reading, writing = [], []
    for number in range(_TIMES):
        ids = model.tokenize(f"{number} " + "All work and no play. " * _PROMPT)[:length]
        done = model.complete(ids, params)
        reading.append(done.usage.prompt_tokens / max(done.timings.first_token, 1e-9))
        writing.append((done.usage.completion_tokens - 1) / max(done.timings.decode, 1e-9))
    return Speed(statistics.median(reading), statistics.median(writing))
