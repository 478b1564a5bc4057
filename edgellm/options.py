"""One setting as users meet it: what it does, its kind and range, and how it is read and checked.

Front ends make their options, fields and panels from these. Knows nothing of what is set.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from edgellm.errors import RequestError

_MAX_FILE = 1 << 24  # bytes of a setting


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Kind:
    """A type of value. wanted: how it is asked for; a range or choices follow. metavar: a word
    for it in the help.

    accepts: whether a value is of this kind. from_text: what a text of the command line stands
    for, ValueError when it has another form. from_json: the same for a JSON value; one of another
    form stays as it is, for `check` to refuse.
    """

    name: str
    wanted: str
    metavar: str
    accepts: Callable[[Any], bool]
    from_text: Callable[[str], Any]
    from_json: Callable[[Any], Any] = _same


@dataclass(frozen=True)
class Option:
    """name: of the field. help: one line, without the default. lowest, highest: what is allowed,
    both included; None is no bound. choices: all texts allowed; None is any.
    is_optional: None is a value too."""

    name: str
    kind: Kind
    default: Any
    help: str
    lowest: float | None = None
    highest: float | None = None
    choices: tuple[str, ...] | None = None
    is_optional: bool = False


def option(
    kind: Kind,
    default: Any,
    text: str,
    lowest: float | None = None,
    highest: float | None = None,
    choices: tuple[str, ...] | None = None,
) -> Any:
    """A dataclass field that `options_of` makes an Option of; text is its help."""
    about = {"kind": kind, "help": text, "lowest": lowest, "highest": highest, "choices": choices}
    return field(default=default, metadata=about)


def options_of(cls: type) -> Mapping[str, Option]:
    """The options of a dataclass by name, in order. One whose default is None is optional."""
    return {
        entry.name: Option(
            name=entry.name,
            default=entry.default,
            is_optional=entry.default is None,
            **entry.metadata,
        )
        for entry in fields(cls)
    }


def check(option: Option, value: Any) -> None:
    """RequestError naming the option and what is allowed, when the value is not."""
    if value is None and option.is_optional:
        return
    if not option.kind.accepts(value) or not _is_allowed(option, value):
        raise RequestError(f"{option.name} is {_shown(value)}: {wanted(option)}", option.name)


def from_text(option: Option, text: str) -> Any:
    """What a text of the command line stands for, not yet checked against the range."""
    try:
        return option.kind.from_text(text)
    except ValueError:
        raise RequestError(
            f"{option.name} is {_shown(text)}: {wanted(option)}", option.name
        ) from None


def wanted(option: Option) -> str:
    """What is allowed, such as "a number from 0.0 to 1.0 is wanted"."""
    text = option.kind.wanted
    if option.lowest is not None:
        text += f" of at least {option.lowest}"
        if option.highest is not None:
            text = f"{option.kind.wanted} from {option.lowest} to {option.highest}"
    if option.choices is not None:
        text += f" of {', '.join(option.choices)}"
    return f"{text} is wanted"


def _is_allowed(option: Option, value: Any) -> bool:
    if option.choices is not None:
        return all(v in option.choices for v in (value if isinstance(value, tuple) else (value,)))
    at_least = option.lowest is None or value >= option.lowest
    return at_least and (option.highest is None or value <= option.highest)


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes no numbers of more than 4,300 digits
        text = "a number of very many digits"
    return text if len(text) <= 80 else text[:77] + "..."


def is_whole(value: Any) -> bool:
    """An integer; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """A finite number."""
    return is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def is_text(value: Any) -> bool:
    """A text with at least one character, and no half of a surrogate pair."""
    try:
        return isinstance(value, str) and bool(value.encode())
    except UnicodeEncodeError:
        return False


def are_texts(value: Any) -> bool:
    """A tuple of such texts."""
    return isinstance(value, tuple) and all(map(is_text, value))


def read_text(text: str) -> str:
    """The text, or after an @ the content of the file of that name."""
    if not text.startswith("@"):
        return text
    try:
        with open(text[1:], "rb") as stream:
            content = stream.read(_MAX_FILE + 1)
        if len(content) > _MAX_FILE:
            raise RequestError(
                f"{text[1:]} has more than {_MAX_FILE >> 20} MiB: this is no setting"
            )
        return content.decode("utf-8")
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise RequestError(f"{text[1:]} cannot be read: {said}") from None


def as_tuple(value: Any) -> Any:
    """A tuple in place of a JSON list, and of a single text."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _whole_from_json(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _flag_from_text(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.lower()]
    except KeyError:
        raise ValueError from None


FLAG = Kind("flag", "true or false", "", lambda value: isinstance(value, bool), _flag_from_text)
WHOLE = Kind("whole", "a whole number", "N", is_whole, int, _whole_from_json)
NUMBER = Kind("number", "a number", "N", is_number, float)
CHOICE = Kind("choice", "one", "NAME", is_text, str)
TEXT = Kind("text", "a text of whole characters that is not empty", "TEXT", is_text, read_text)
TEXTS = Kind(
    "texts",
    "a tuple of texts of whole characters, none empty,",
    "TEXT",
    are_texts,
    as_tuple,
    as_tuple,
)
