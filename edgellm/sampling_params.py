"""How tokens are chosen and when to stop: every setting, with its help, kind and range.

The one place that names them: command line, servers and panels are made from OPTIONS. Knows
nothing of how they are done.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from edgellm.errors import RequestError
from edgellm.options import (
    CHOICE,
    FLAG,
    NUMBER,
    TEXT,
    TEXTS,
    WHOLE,
    Option,
    check,
    option,
    options_of,
)
from edgellm.sampling_kinds import BIASES, DEFAULT_SAMPLERS, ORDER, SAMPLERS as SAMPLERS, SCHEMA

MAX_SEED = 2**64 - 1
_MOST = 2**31 - 1
_MAX_TEXTS = 64  # stop texts, sequence breakers
_MAX_CHOICES = 10_000
_MAX_BIASES = 10_000


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How tokens are chosen and when to stop; names and defaults are llama.cpp's.

    None in max_tokens runs to the end of the context, in seed draws one, in logprobs reports none.
    logit_bias: token ids, as numbers or texts of digits, or texts, each token of which is meant;
    False or -inf bans. Fields that were not given take what the model's file or the catalogue
    advises, if anything.
    """

    samplers: tuple[str, ...] = option(
        ORDER, DEFAULT_SAMPLERS, "the samplers and their order", choices=tuple(SAMPLERS)
    )
    temperature: float = option(NUMBER, 0.8, "0 always takes the most likely token", -1.0, 1000.0)
    dynatemp_range: float = option(
        NUMBER, 0.0, "the temperature moves by this with the entropy; 0 is off", 0.0, 1000.0
    )
    dynatemp_exponent: float = option(NUMBER, 1.0, "how it moves with the entropy", 0.0, 100.0)
    top_k: int = option(WHOLE, 40, "draw from the k most likely; 0 is off", 0, _MOST)
    top_p: float = option(
        NUMBER, 0.95, "draw from the most likely that hold this probability; 1 is off", 0.0, 1.0
    )
    min_p: float = option(
        NUMBER, 0.05, "drop what is this much less likely than the best; 0 is off", 0.0, 1.0
    )
    typical_p: float = option(
        NUMBER, 1.0, "draw from the most typical that hold this probability; 1 is off", 0.0, 1.0
    )
    top_n_sigma: float = option(
        NUMBER,
        -1.0,
        "drop logits this many standard deviations below the best; 0 or below is off",
        -1.0,
        100.0,
    )
    xtc_probability: float = option(
        NUMBER, 0.0, "how often the likeliest tokens are left out; 0 is off", 0.0, 1.0
    )
    xtc_threshold: float = option(
        NUMBER, 0.1, "probability from which they are; above 0.5 is off", 0.0, 1.0
    )
    min_keep: int = option(WHOLE, 0, "tokens that no sampler goes below", 0, _MOST)
    repeat_penalty: float = option(
        NUMBER, 1.0, "make recent tokens less likely; 1 is off", 0.01, 100.0
    )
    repeat_last_n: int = option(
        WHOLE, 64, "tokens that the penalties look back on; -1 is all, 0 is off", -1, _MOST
    )
    presence_penalty: float = option(
        NUMBER, 0.0, "taken once off what the text has; 0 is off", -100.0, 100.0
    )
    frequency_penalty: float = option(
        NUMBER, 0.0, "taken off per occurrence; 0 is off", -100.0, 100.0
    )
    dry_multiplier: float = option(
        NUMBER, 0.0, "DRY: penalty on going on with a repeated phrase; 0 is off", 0.0, 100.0
    )
    dry_base: float = option(NUMBER, 1.75, "DRY: how it grows per repeated token", 1.0, 100.0)
    dry_allowed_length: int = option(
        WHOLE, 2, "DRY: repeated phrases shorter than this go free", 0, _MOST
    )
    dry_penalty_last_n: int = option(
        WHOLE, 64, "DRY: tokens looked back on; -1 is all, 0 is off", -1, _MOST
    )
    dry_sequence_breakers: tuple[str, ...] = option(
        TEXTS, ("\n", ":", '"', "*"), "DRY: a phrase does not go on over this text"
    )
    mirostat: int = option(
        WHOLE, 0, "hold the surprise steady: version 1 or 2, with temperature alone; 0 is off", 0, 2
    )
    mirostat_tau: float = option(NUMBER, 5.0, "mirostat: surprise aimed at, bits", 0.0, 1000.0)
    mirostat_eta: float = option(NUMBER, 0.1, "mirostat: how fast it is corrected", 0.0, 1.0)
    adaptive_target: float = option(
        NUMBER, -1.0, "adaptive-p: probability aimed at; below 0 is off", -1.0, 1.0
    )
    adaptive_decay: float = option(
        NUMBER, 0.9, "adaptive-p: how long earlier tokens count", 0.0, 0.99
    )
    logit_bias: Mapping[int | str, float] | None = option(
        BIASES, None, "added to a token's logit, such as 15043+1; -inf bans it"
    )
    ignore_eos: bool = option(FLAG, False, "never draw the model's end of generation")
    min_tokens: int = option(
        WHOLE, 0, "no end of generation before so many tokens of the answer", 0, _MOST
    )
    max_tokens: int | None = option(WHOLE, None, "the most tokens of the answer", 0, _MOST)
    stop: tuple[str, ...] = option(TEXTS, (), "ends the answer and is left out")
    seed: int | None = option(WHOLE, None, "the same seed gives the same text", 0, MAX_SEED)
    n: int = option(WHOLE, 1, "answers to one prompt", 1, 128)
    beam_width: int = option(
        WHOLE,
        1,
        "beam search: so many texts are followed side by side, by penalties alone; 1 is off",
        1,
        64,
    )
    logprobs: int | None = option(
        WHOLE, None, "report log-probabilities, with so many alternatives", 0, 100
    )
    json_schema: Mapping[str, Any] | bool | str | None = option(
        SCHEMA, None, "the answer is JSON of this schema; @FILE reads it"
    )
    regex: str | None = option(
        TEXT, None, "the answer matches this regular expression; @FILE reads it"
    )
    grammar: str | None = option(TEXT, None, "the answer matches this GBNF grammar; @FILE reads it")
    lark: str | None = option(TEXT, None, "the answer matches this Lark grammar; @FILE reads it")
    choices: tuple[str, ...] | None = option(TEXTS, None, "the answer is one of these")
    loop_detection: Literal["off", "warn", "stop"] = option(
        CHOICE,
        "off",
        "when the text repeats itself: off, warn or stop",
        choices=("off", "warn", "stop"),
    )
    speculation: Literal["auto", "off", "lookup", "mtp", "draft"] = option(
        CHOICE,
        "auto",
        "guess tokens ahead, where that is faster; the text stays the same. lookup, mtp, draft: "
        "only from the text so far, by heads in the file, or by a draft model",
        choices=("auto", "off", "lookup", "mtp", "draft"),
    )

    def __new__(cls, **given: Any) -> Self:
        params = super().__new__(cls)
        params.__dict__["_given"] = frozenset(given)
        return params

    @property
    def given(self) -> Mapping[str, Any]:
        """The fields that were set when this was made, whatever they were set to."""
        return {name: getattr(self, name) for name in OPTIONS if name in self.__dict__["_given"]}


OPTIONS: Mapping[str, Option] = options_of(SamplingParams)

# Those that say what the answer must look like; at most one can be used.
CONSTRAINTS = ("json_schema", "regex", "grammar", "lark", "choices")


def constraints_of(params: SamplingParams) -> list[str]:
    """The names of those that are given."""
    return [name for name in CONSTRAINTS if getattr(params, name) is not None]


# Settings that say how tokens are drawn, and from where on they do: beam search draws none.
_DRAWING: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("temperature", "top_k", "min_p", "top_n_sigma"), lambda value: value > 0),
    **dict.fromkeys(("dynatemp_range", "xtc_probability", "mirostat"), lambda value: value > 0),
    **dict.fromkeys(("top_p", "typical_p"), lambda value: value < 1),
    "adaptive_target": lambda value: value >= 0,
    "loop_detection": lambda value: value != "off",
}

_MOST_TEXTS = {"stop": _MAX_TEXTS, "dry_sequence_breakers": _MAX_TEXTS, "choices": _MAX_CHOICES}


def check_params(params: SamplingParams) -> None:
    """RequestError naming the first field whose value cannot be used, with what is allowed."""
    for name, value in params.given.items():
        check(OPTIONS[name], value)
    for name, most in _MOST_TEXTS.items():
        if (count := len(getattr(params, name) or ())) > most:
            raise RequestError(f"{name} has {count} texts: at most {most} are read", name)
    if params.logit_bias is not None and len(params.logit_bias) > _MAX_BIASES:
        count = len(params.logit_bias)
        raise RequestError(
            f"logit_bias has {count} entries: at most {_MAX_BIASES} are read", "logit_bias"
        )
    if params.choices == ():
        raise RequestError("choices is empty: at least one text is wanted", "choices")
    if params.n > 1 and params.beam_width > 1 and params.n > params.beam_width:
        raise RequestError(
            f"n is {params.n}: of {params.beam_width} beams at most as many are answers", "n"
        )
    if params.beam_width > 1:
        for name, value in params.given.items():
            if name in _DRAWING and _DRAWING[name](value):
                raise RequestError(
                    f"{name} is {value}: beam search draws no tokens; leave it or beam_width out",
                    name,
                )
    constraints = constraints_of(params)
    if len(constraints) > 1:
        raise RequestError(
            f"{' and '.join(constraints)} are both given: give one of them", constraints[1]
        )


def read_params(values: Mapping[str, Any]) -> SamplingParams:
    """Parameters of a JSON object. null is not given; names that are no options are left out.

    RequestError for a value that cannot be used.
    """
    given = {
        name: OPTIONS[name].kind.from_json(value)
        for name, value in values.items()
        if name in OPTIONS and value is not None
    }
    params = SamplingParams(**given)
    check_params(params)
    return params


def resolve(params: SamplingParams, advised: Mapping[str, Any]) -> SamplingParams:
    """The parameters with `advised` for fields that were not given."""
    return SamplingParams(**{**advised, **params.given}) if advised else params
