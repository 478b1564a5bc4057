"""The settings of a conversation: the options of SamplingParams, and how much the model thinks.

Knows no widgets.
"""

from collections.abc import Mapping
from typing import Any

from edgellm.dialects.effort import LEVELS
from edgellm.errors import RequestError
from edgellm.options import TEXT, Option, check, from_text
from edgellm.sampling_params import CONSTRAINTS, OPTIONS, SamplingParams, read_params

# Decided by the chat itself, or too long for a field.
_NOT_SHOWN = {"n", "logprobs", *CONSTRAINTS}

# Those that most people look for, shown first.
FIRST = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repeat_penalty",
    "max_tokens",
    "seed",
    "stop",
)
THINKING = Option(
    "thinking",
    TEXT,
    None,
    "whether and how much it thinks first, for models whose chat template has a switch: "
    + ", ".join(LEVELS),
    choices=LEVELS,
    is_optional=True,
)
_OTHERS = tuple(name for name in OPTIONS if name not in (*FIRST, *_NOT_SHOWN))
SHOWN: Mapping[str, Option] = {
    **{name: OPTIONS[name] for name in FIRST},
    THINKING.name: THINKING,
    **{name: OPTIONS[name] for name in _OTHERS},
}


def label(option: Option) -> str:
    return option.name.replace("_", " ")


def show(value: Any) -> str:
    """A value as it is typed; "" for None and for no texts."""
    if value is None:
        return ""
    if isinstance(value, tuple | list):
        return ";".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def parse(option: Option, text: str) -> Any:
    """The value typed, in the form that JSON keeps. RequestError says what is wanted."""
    value = from_text(option, text if option.kind is TEXT else text.strip())
    check(option, value)
    return list(value) if isinstance(value, tuple) else value


def parse_assignment(text: str) -> dict[str, Any]:
    """`temperature=0.2 top-k=20` as settings. RequestError for what is no setting."""
    found = {}
    for part in text.split():
        name, equals, value = part.partition("=")
        name = name.strip("-").replace("-", "_")
        if not equals or name not in SHOWN:
            raise RequestError(f"{part!r}: NAME=VALUE is expected, such as temperature=0.2")
        found[name] = parse(SHOWN[name], value)
    return found


def sampling_params(settings: Mapping[str, Any], **changes: Any) -> SamplingParams:
    """The parameters of one answer: those set for the conversation, and changes to them. What is
    not given is the model's own. RequestError for a value that cannot be used."""
    return read_params({**settings, **changes})


def thinking(settings: Mapping[str, Any]) -> str | None:
    """One of LEVELS, or None. RequestError for what is none, as an imported chat may have it."""
    level: str | None = settings.get(THINKING.name)
    check(THINKING, level)
    return level
