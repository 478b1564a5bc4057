"""What can be set for a conversation, from the fields of SamplingParams and what they say of
themselves. Knows no widgets."""

import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_args

from edgellm.errors import RequestError
from edgellm.types import SamplingParams

# Decided by the chat itself.
_NOT_SHOWN = {"n", "logprobs"}
_KINDS = (bool, int, float, str)


@dataclass(frozen=True)
class Option:
    """One setting. kind: of its value, tuple for several texts; None is allowed if `optional`."""

    name: str
    kind: type
    optional: bool
    default: Any
    help: str

    @property
    def label(self) -> str:
        return self.name.replace("_", " ")

    def show(self, value: Any) -> str:
        """A value as it is typed; "" for None."""
        if value is None:
            return ""
        if isinstance(value, tuple | list):
            return ", ".join(map(str, value))
        return f"{value:g}" if isinstance(value, float) else str(value)

    def parse(self, text: str) -> Any:
        """The value typed. ValueError says what is expected."""
        text = text.strip()
        if self.kind is tuple:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        if self.kind is bool:
            return text.lower() in ("true", "yes", "on", "1")
        try:
            return self.kind(text)
        except ValueError:
            what = "a whole number" if self.kind is int else "a number"
            raise ValueError(f"{self.label}: {what} is expected") from None


def options() -> tuple[Option, ...]:
    """Every setting, in the order of the dataclass."""
    found = []
    for field in fields(SamplingParams):
        given = get_args(field.type) if isinstance(field.type, types.UnionType) else (field.type,)
        kind = next((k for k in given if k in _KINDS), None)
        if (
            given
            and getattr(given[0], "__origin__", None) is tuple
            and get_args(given[0])[0] is str
        ):
            kind = tuple
        if field.name in _NOT_SHOWN or kind is None or field.default is MISSING:
            continue
        found.append(
            Option(
                name=field.name,
                kind=kind,
                optional=type(None) in given,
                default=field.default,
                help=field.metadata.get("help", ""),
            )
        )
    return tuple(found)


def parse_assignment(text: str) -> dict[str, Any]:
    """`temperature=0.2 top_k=20` as settings. RequestError for what is no setting."""
    known = {option.name: option for option in options()}
    found = {}
    for part in text.split():
        name, equals, value = part.partition("=")
        name = name.strip("-").replace("-", "_")
        if not equals or name not in known:
            raise RequestError(f"{part!r}: NAME=VALUE is expected, a name of {', '.join(known)}")
        try:
            found[name] = known[name].parse(value)
        except ValueError as error:
            raise RequestError(str(error), name) from None
    return found


def sampling_params(
    advised: Mapping[str, Any], settings: Mapping[str, Any], **changes: Any
) -> SamplingParams:
    """The parameters of one answer: a model's own, those set for the conversation, and changes."""
    known = {field.name for field in fields(SamplingParams)}
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in {**advised, **settings, **changes}.items()
        if name in known
    }
    return SamplingParams(**given)
