"""Reads what requests have in common: typed fields, sampling parameters, messages.

Fields that nobody knows are left alone, null is as good as missing. Every error is a RequestError
that names the field.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, TypeVar, overload

from edgellm.dialects import Tools, read_tools
from edgellm.errors import RequestError
from edgellm.sampling_params import OPTIONS, SAMPLERS, SamplingParams, read_params
from edgellm.types import Message, Messages, ModelInfo
from edgellm.wire import decode

T = TypeVar("T")
Fields = Mapping[str, Any]

_SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|)")
_NEGATIVE_IS_UNSET = ("max_tokens", "seed")
_NEGATIVE_IS_OFF = ("top_k", "min_tokens")
_EMPTY_IS_UNSET = ("grammar", "regex", "lark", "choices", "json_schema")


@overload
def read(fields: Fields, name: str, kind: type[T]) -> T | None: ...
@overload
def read(fields: Fields, name: str, kind: type[T], default: T) -> T: ...
def read(fields: Fields, name: str, kind: type[T], default: T | None = None) -> T | None:
    """A field of this type, or the default."""
    value = fields.get(name)
    if value is None:
        return default
    found = decode(kind, value, name)
    if isinstance(found, float) and not math.isfinite(found):
        raise RequestError(f"{name} is {found}: a number is expected", name)
    return found


def objects(fields: Fields, name: str) -> list[dict[str, Any]]:
    """A field that is a list of objects; empty when it is missing."""
    return list(read(fields, name, tuple[dict[str, Any], ...], ()))


def sampling(fields: Fields, renamed: Mapping[str, str], **changes: Any) -> SamplingParams:
    """The sampling parameters among the fields.

    renamed: the API's names for ours, the first that is given counts. changes: what the caller
    read itself; it goes before the fields.
    """
    values = {name: fields[name] for name in OPTIONS if fields.get(name) is not None}
    for theirs, ours in renamed.items():
        if fields.get(theirs) is not None:
            values.setdefault(ours, fields[theirs])
    values.update(changes)
    for name in _NEGATIVE_IS_UNSET:
        if _is_negative(values.get(name)):
            del values[name]
    for name in _NEGATIVE_IS_OFF:
        if _is_negative(values.get(name)):
            values[name] = 0
    for name in _EMPTY_IS_UNSET:
        if values.get(name) in ("", [], ()):
            del values[name]
    stop = values.get("stop")
    if isinstance(stop, list | tuple | str):
        values["stop"] = [
            text for text in ([stop] if isinstance(stop, str) else stop) if text != ""
        ]
    if "samplers" in values:
        values["samplers"] = _known_samplers(values["samplers"])
    return read_params({name: value for name, value in values.items() if value is not None})


def response_format(fields: Fields) -> Mapping[str, Any]:
    """The constraint that OpenAI's response_format asks for, as fields of SamplingParams."""
    form = read(fields, "response_format", dict[str, Any])
    if form is None:
        return {}
    schema = form.get("schema")
    match form.get("type"):
        case "text" | None:
            return {}
        case "json_object":
            return {"json_schema": schema or {"type": "object"}}
        case "json_schema":
            named = form.get("json_schema")
            schema = named.get("schema") if isinstance(named, dict) else schema
            if not isinstance(schema, dict | bool):
                raise RequestError(
                    "response_format.json_schema has no schema: an object is expected",
                    "response_format",
                )
            return {"json_schema": schema}
        case "grammar":
            return {"grammar": form.get("grammar")}
    raise RequestError(
        f"response_format.type is {form.get('type')!r}: text, json_object or json_schema is wanted",
        "response_format",
    )


def messages(fields: Fields, most: int) -> Messages:
    """The conversation; content that is missing is empty."""
    found = objects(fields, "messages")
    if len(found) > most:
        raise RequestError(f"{len(found)} messages: at most {most} are read", "messages")
    return [_with_content(message) for message in found]


def tools(fields: Fields) -> Tools:
    """The tools as OpenAI writes them."""
    choice = fields.get("tool_choice")
    return read_tools(
        objects(fields, "tools"), choice, read(fields, "parallel_tool_calls", bool, True)
    )


def adapters(
    fields: Fields, info: ModelInfo, changed: Mapping[str, Mapping[str, float]]
) -> Mapping[str, float] | None:
    """The scales of llama.cpp's `lora`, a list of ids and scales; those left out are 0.

    changed: by model, what holds where the field is missing.
    """
    if fields.get("lora") is None:
        kept = changed.get(info.name)
        return kept and {adapter.name: kept.get(adapter.name, 0.0) for adapter in info.adapters}
    scales = {}
    for entry in objects(fields, "lora"):
        number = read(entry, "id", int, -1)
        if not 0 <= number < len(info.adapters):
            raise RequestError(
                f"lora: {info.name} has no adapter {number}; it has {len(info.adapters)}", "lora"
            )
        scales[info.adapters[number].name] = read(entry, "scale", float, 0.0)
    return scales


def keep_alive(fields: Fields) -> float | None:
    """Seconds of Ollama's `keep_alive`: a number, or a duration such as 1h30m; None: not given."""
    value = fields.get("keep_alive")
    if value is None:
        return None
    text = str(value).strip()
    sign, length = -1 if text.startswith("-") else 1, text.lstrip("+-")
    parts = _DURATION.findall(length)
    if not parts or "".join(number + unit for number, unit in parts) != length:
        raise RequestError(
            f"keep_alive is {value!r}: seconds, or a duration such as 5m, are expected",
            "keep_alive",
        )
    return sign * sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _with_content(message: dict[str, Any]) -> Message:
    if message.get("content") is None and not message.get("tool_calls"):
        return {**message, "content": ""}
    return message


def _known_samplers(value: Any) -> Any:
    """The samplers without those that only others have. Where no other is named those are an
    error: nothing at all would narrow the choice."""
    spelled = OPTIONS["samplers"].kind.from_json(value)
    if not isinstance(spelled, tuple):
        return value
    return [name for name in spelled if not isinstance(name, str) or name in SAMPLERS] or value


def _is_negative(value: Any) -> bool:
    return isinstance(value, int | float) and value < 0
