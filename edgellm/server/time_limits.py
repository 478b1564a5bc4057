"""llama.cpp's limits of time and of indentation, which editors send. Knows no API's frame."""

import math
from dataclasses import asdict

from edgellm.errors import RequestError
from edgellm.holes import FimPrompt
from edgellm.server import fields as f
from edgellm.server.answers import Limits
from edgellm.server.routes import Call
from edgellm.types import SamplingParams

_LEAST_SUFFIX = 64  # tokens kept of a suffix however short the time
TAKES = ("n_indent", "t_max_predict_ms", "sse_ping_interval")


def limits_of(call: Call, params: SamplingParams) -> Limits:
    """The limits of an answer. RequestError when there are several answers."""
    milliseconds = f.read(call.fields, "t_max_predict_ms", float)
    limits = Limits(
        predict_seconds=milliseconds / 1000 if milliseconds and milliseconds > 0 else None,
        indent=f.read(call.fields, "n_indent", int, 0),
    )
    if limits != Limits() and params.n > 1:
        raise RequestError("n_indent and t_max_predict_ms are for one answer, not for several", "n")
    return limits


def silence_of(call: Call) -> float | None:
    """The `silence` of a Stream: seconds, or 0 and -1 for no comments at all."""
    seconds = f.read(call.fields, "sse_ping_interval", int)
    if seconds is not None and seconds < -1:
        said = f"sse_ping_interval is {seconds}: seconds, or -1 for never, are expected"
        raise RequestError(said, "sse_ping_interval")
    return seconds if seconds is None or seconds > 0 else math.inf


def suffix_limit(call: Call) -> int | None:
    """How many tokens of the suffix can be read in the time there is for the prompt.

    What comes before it is in the cache but for the last keystrokes. A power of two, so that a
    rate which changes a little leaves the prompt, and so the cache, as it was. None: no time is
    given, or it is not known yet how fast this server reads.
    """
    milliseconds = f.read(call.fields, "t_max_prompt_ms", float)
    rate = call.service.totals.prompt_rate
    if milliseconds is None or milliseconds <= 0 or rate is None:
        return None
    tokens = int(min(rate * milliseconds / 1000, 1 << 30))
    return max(_LEAST_SUFFIX, 1 << tokens.bit_length() >> 1)


def cuts(filled: FimPrompt) -> dict[str, int]:
    """What did not fit, by their names in `timings`, those that were made."""
    cuts = {name: count for name, count in asdict(filled).items() if name != "token_ids"}
    return {f"{name}_n": count for name, count in cuts.items() if count}
