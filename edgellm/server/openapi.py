"""The server's routes as an OpenAPI document, made from the tables of routes."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from edgellm.options import FLAG, NUMBER, TEXT, TEXTS, WHOLE, Kind, Option
from edgellm.sampling_params import OPTIONS
from edgellm.server.routes import Family, Route
from edgellm.version import __version__

_TEXT = {"type": "string"}
_WHOLE = {"type": "integer"}
_NUMBER = {"type": "number"}
_FLAG = {"type": "boolean"}
_OBJECT = {"type": "object"}
_IDS = {"type": "array", "items": _WHOLE}
_OBJECTS = {"type": "array", "items": _OBJECT}
_TEXTS = {"type": "array", "items": _TEXT}
_MESSAGES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"role": _TEXT, "content": {"anyOf": [_TEXT, _OBJECTS]}},
        "required": ["role"],
    },
}

FIELDS: Mapping[str, Mapping[str, Any]] = {
    "model": _TEXT,
    "name": _TEXT,
    "messages": _MESSAGES,
    "system": {"anyOf": [_TEXT, _OBJECTS]},
    "stream": _FLAG,
    "stream_options": {"type": "object", "properties": {"include_usage": _FLAG}},
    "tools": _OBJECTS,
    "tool_choice": {"anyOf": [_TEXT, _OBJECT]},
    "parallel_tool_calls": _FLAG,
    "tool_choice_object": _OBJECT,
    "response_format": _OBJECT,
    "max_completion_tokens": _WHOLE,
    "max_output_tokens": _WHOLE,
    "top_logprobs": _WHOLE,
    "chat_template_kwargs": _OBJECT,
    "reasoning_effort": _TEXT,
    "reasoning": _OBJECT,
    "thinking": _OBJECT,
    "output_config": _OBJECT,
    "enable_thinking": _FLAG,
    "think": {"anyOf": [_FLAG, _TEXT]},
    "text": _OBJECT,
    "input": {"anyOf": [_TEXT, _OBJECTS]},
    "instructions": _TEXT,
    "previous_response_id": _TEXT,
    "store": _FLAG,
    "prompt": {"anyOf": [_TEXT, _IDS, _TEXTS, {"type": "array", "items": _IDS}]},
    "prompt_text": _TEXT,
    "input_texts": {"anyOf": [_TEXT, _IDS, _TEXTS, {"type": "array", "items": _IDS}]},
    "dimensions": _WHOLE,
    "truncate": _FLAG,
    "query": _TEXT,
    "documents": _TEXTS,
    "top_n": _WHOLE,
    "suffix": _TEXT,
    "echo": _FLAG,
    "encoding_format": {"enum": ["float", "base64"]},
    "n_predict": _WHOLE,
    "n_probs": _WHOLE,
    "n_keep": _WHOLE,
    "n_indent": _WHOLE,
    "t_max_predict_ms": _NUMBER,
    "t_max_prompt_ms": _NUMBER,
    "sse_ping_interval": _WHOLE,
    "reasoning_format": {"enum": ["auto", "deepseek", "none"]},
    "response_fields": _TEXTS,
    "lora": {
        "type": "array",
        "items": {"type": "object", "properties": {"id": _WHOLE, "scale": _NUMBER}},
    },
    "return_tokens": _FLAG,
    "return_progress": _FLAG,
    "timings_per_token": _FLAG,
    "post_sampling_probs": _FLAG,
    "cache_prompt": _FLAG,
    "input_prefix": _TEXT,
    "input_suffix": _TEXT,
    "input_extra": {
        "type": "array",
        "items": {"type": "object", "properties": {"filename": _TEXT, "text": _TEXT}},
    },
    "content": _TEXT,
    "add_special": _FLAG,
    "parse_special": _FLAG,
    "with_pieces": _FLAG,
    "tokens": _IDS,
    "stop_sequences": _TEXTS,
    "options": _OBJECT,
    "format": {"anyOf": [_TEXT, _OBJECT]},
    "keep_prompt": _FLAG,
    "id_slot": _WHOLE,
    "filename": _TEXT,
    "keep_alive": {"anyOf": [_NUMBER, _TEXT]},
    "raw": _FLAG,
    "context": _IDS,
}
_RENAMED = {"prompt_text": "prompt", "input_texts": "input", "tool_choice_object": "tool_choice"}
_KINDS: Mapping[Kind, Mapping[str, Any]] = {
    FLAG: _FLAG,
    WHOLE: _WHOLE,
    NUMBER: _NUMBER,
    TEXT: _TEXT,
    TEXTS: _TEXTS,
}


def document(families: Iterable[Family]) -> dict[str, Any]:
    """OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for family in families:
        for route in family.routes:
            path = route.path.replace(":path}", "}")
            paths.setdefault(path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "edgellm", "version": __version__},
        "paths": paths,
    }


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.method.lower() + re.sub(r"\W+", "_", route.path).rstrip("_"),
        "responses": {
            "200": {"description": "the answer"},
            "4XX": {"description": "what is wrong with the request, and in which field"},
            "501": {"description": "what this server or model cannot do"},
            "503": {"description": "not now; Retry-After says when"},
        },
    }
    names = [part.strip("{}").partition(":")[0] for part in route.path.split("/") if "{" in part]
    if names:
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names
        ]
    if route.method == "POST":
        content = {"application/json": {"schema": _body(route)}}
        operation["requestBody"] = {"content": content, "required": bool(route.needs)}
    return operation


def _body(route: Route) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    if route.samples:
        properties |= {name: _schema(option) for name, option in OPTIONS.items()}
    properties |= {_RENAMED.get(name, name): dict(FIELDS[name]) for name in route.takes}
    needed = [_RENAMED.get(name, name) for name in route.needs]
    required = {"required": needed} if needed else {}
    return {"type": "object", "properties": properties, **required}


def _schema(option: Option) -> dict[str, Any]:
    schema: dict[str, Any] = {**_KINDS.get(option.kind, {}), "description": option.help}
    if option.lowest is not None and option.kind in (WHOLE, NUMBER):
        schema["minimum"] = option.lowest
    if option.highest is not None:
        schema["maximum"] = option.highest
    return schema
