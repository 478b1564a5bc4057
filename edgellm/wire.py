"""The data of `types` and the errors as JSON values and back, nothing lost. Knows no transport.

A dataclass is an object without the fields that have their default; bytes are text of as many
characters. JSON here may hold Infinity and NaN, and text may hold lone surrogates, as Python's json
reads and writes them.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from edgellm import errors
from edgellm.errors import ContextOverflow, EdgeLLMError, RequestError
from edgellm.sampling_params import OPTIONS
from edgellm.types import SamplingParams, TokenEvent

T = TypeVar("T")

_JSON_NAMES: Mapping[type, str] = {
    str: "text",
    bytes: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    tuple: "a list",
    NoneType: "null",
}


def encode(value: Any) -> Any:
    """A dataclass, or what its fields hold, as a JSON value."""
    if isinstance(value, SamplingParams):
        return encode(value.given)  # what was given goes before what a model advises
    if is_dataclass(value):
        return {
            field.name: encode(held)
            for field in fields(value)
            if (held := getattr(value, field.name)) != field.default or field.default is MISSING
        }
    if isinstance(value, Mapping):
        return {key: encode(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [encode(held) for held in value]
    return value.decode("latin-1") if isinstance(value, bytes) else value


def encode_event(event: TokenEvent) -> dict[str, Any]:
    """`encode` of a TokenEvent, which is wanted once per token."""
    is_text = event.logprobs is None and event.finish_reason is None
    if is_text and event.note is None and event.progress is None:
        return {"index": event.index, "text": event.text, "token_ids": event.token_ids}
    return cast(dict[str, Any], encode(event))


def decode(kind: type[T], value: Any, where: str | None = None) -> T:
    """The value of this type that `encode` made. RequestError names the part that does not fit.

    where: what the value is called in errors.
    """
    return cast(T, _decode(kind, value, where or kind.__name__))


def decode_event(value: Any) -> TokenEvent:
    """`decode` of a TokenEvent, which is wanted once per token."""
    match value:
        case {"index": int(index), "text": str(text), "token_ids": list(ids), **more} if (
            not more and type(index) is int and all(type(token) is int for token in ids)
        ):
            return TokenEvent(index, text, tuple(ids))
    return decode(TokenEvent, value)


def encode_error(error: Exception) -> dict[str, Any]:
    """An error as an object; one that is not of edgellm.errors shows as EdgeLLMError."""
    known = error if type(error) in _errors().values() else EdgeLLMError(str(error))
    return {"type": type(known).__name__, "message": str(error), **vars(known)}


def decode_error(value: Any) -> EdgeLLMError:
    """The error again, of its own class; what is no error becomes one that says so."""
    if not isinstance(value, Mapping) or not isinstance(value.get("message"), str):
        return EdgeLLMError(f"the server answered with what is no error: {str(value)[:200]!r}")
    kind = _errors().get(str(value.get("type")), EdgeLLMError)
    error = kind.__new__(kind)
    Exception.__init__(error, value["message"])
    if issubclass(kind, RequestError):
        vars(error).update(field=value.get("field"))
    if issubclass(kind, ContextOverflow):
        for name in ("prompt_tokens", "context_length"):
            vars(error)[name] = value.get(name)
    return error


@cache
def _errors() -> Mapping[str, type[EdgeLLMError]]:
    found = vars(errors).values()
    return {e.__name__: e for e in found if isinstance(e, type) and issubclass(e, EdgeLLMError)}


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _decode(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _decode_union(args, value, where)
    if origin is Literal:
        if value in args:
            return value
    elif origin is tuple and isinstance(value, list):
        if args[1:] == (...,):
            return tuple(_decode(args[0], item, f"{where}[{i}]") for i, item in enumerate(value))
        if len(args) == len(value):
            pairs = enumerate(zip(args, value, strict=True))
            return tuple(_decode(kind, item, f"{where}[{i}]") for i, (kind, item) in pairs)
    elif origin is not None and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {key: _decode(args[1], item, f"{where}.{key}") for key, item in value.items()}
    elif kind is SamplingParams and isinstance(value, Mapping):
        return _decode_params(value, where)
    elif is_dataclass(kind) and isinstance(value, Mapping):
        return _decode_dataclass(cast(type, kind), value, where)
    elif kind is bytes and isinstance(value, str):
        return value.encode("latin-1")
    elif kind is NoneType and value is None:
        return None
    elif kind in (str, bool) and isinstance(value, kind):
        return value
    elif kind in (int, float) and isinstance(value, (int, kind)) and not isinstance(value, bool):
        return value
    raise RequestError(
        f"{where} is {json_name(type(value))}; {_expected(kind)} is expected",
        where.rpartition(".")[2],
    )


def json_name(kind: type) -> str:
    """What JSON calls the values of a type."""
    return _JSON_NAMES.get(kind, "an object")


def _expected(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_expected, args)))
    if origin is Literal:
        return " or ".join(map(repr, args))
    if origin is tuple and args[1:] == (...,):
        return f"a list, each item {_expected(args[0])},"
    return json_name(origin or kind)


def _decode_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    failure = None
    for kind in kinds:
        try:
            return _decode(kind, value, where)
        except RequestError as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _decode_params(value: Mapping[str, Any], where: str) -> SamplingParams:
    if unknown := value.keys() - OPTIONS.keys():
        raise RequestError(f"{where} has no field {min(unknown)!r}", min(unknown))
    return SamplingParams(**{n: OPTIONS[n].kind.from_json(held) for n, held in value.items()})


def _decode_dataclass(kind: type, value: Mapping[str, Any], where: str) -> Any:
    hints = _hints(kind)
    if unknown := value.keys() - hints.keys():
        name = min(unknown)
        raise RequestError(f"{where} has no field {name!r}", str(name))
    given = {name: _decode(hints[name], held, f"{where}.{name}") for name, held in value.items()}
    for field in fields(kind):
        required = field.default is MISSING and field.default_factory is MISSING
        if required and field.name not in given:
            raise RequestError(f"{where}.{field.name} is missing", field.name)
    return kind(**given)
