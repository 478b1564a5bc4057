"""Which sampling parameters can be used: a range per field. Draws nothing itself."""

import math
from dataclasses import fields

from edgellm.errors import RequestError
from edgellm.types import SamplingParams

MAX_SEED = 2**64 - 1

# field: (lowest, highest) allowed; a field that may be None is not checked then.
RANGES: dict[str, tuple[float, float]] = {
    "temperature": (-math.inf, 1000.0),
    "top_k": (0, math.inf),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "repeat_penalty": (0.01, 100.0),
    "repeat_last_n": (0, math.inf),
    "presence_penalty": (-100.0, 100.0),
    "frequency_penalty": (-100.0, 100.0),
    "max_tokens": (0, math.inf),
    "n": (1, 128),
    "seed": (0, MAX_SEED),
    "logprobs": (0, 100),
}
_MAX_STOPS = 64


def check_params(params: SamplingParams) -> None:
    """RequestError naming the first field whose value is of no use, with its range."""
    for entry in fields(params):
        if entry.name not in RANGES:
            continue
        value = getattr(params, entry.name)
        if value is None and entry.default is None:
            continue
        is_real = isinstance(entry.default, float)
        kind = "a number" if is_real else "a whole number"
        right = isinstance(value, int | float if is_real else int) and not isinstance(value, bool)
        low, high = RANGES[entry.name]
        if not right or not low <= value <= high:
            raise RequestError(
                f"{entry.name} is {value!r}: {kind} {_range(low, high)} is wanted", entry.name
            )
    if not isinstance(params.stop, tuple) or not all(s and isinstance(s, str) for s in params.stop):
        raise RequestError(f"stop is {params.stop!r}: a tuple of non-empty texts is wanted", "stop")
    if len(params.stop) > _MAX_STOPS:
        raise RequestError(f"{len(params.stop)} stop texts: at most {_MAX_STOPS} are read", "stop")


def _range(low: float, high: float) -> str:
    if high == math.inf:
        return f"of at least {low}"
    return f"of at most {high}" if low == -math.inf else f"from {low} to {high}"
