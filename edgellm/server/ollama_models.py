"""Ollama's routes that tell of models. Fetching and removing them is the command line's."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from edgellm.dialects import can_think, dialect_of
from edgellm.pull.store import Stored
from edgellm.server import fields as f
from edgellm.server.failures import Failure, Refusal
from edgellm.server.routes import (
    LINES,
    NOT_HERE,
    Call,
    Put,
    Reply,
    Route,
    Stream,
    json_line,
    refused,
)
from edgellm.types import ModelDetails, ModelInfo

_VERSION = "0.13.0"  # of Ollama, whose routes these are: clients ask for at least some version
_FOREVER = 100 * 365 * 86400  # seconds


def ollama_error(failure: Failure) -> Mapping[str, Any]:
    return {"error": failure.message}


async def version(call: Call) -> Reply:
    return {"version": _VERSION}


async def tags(call: Call) -> Reply:
    found = [await _entry(call, info) for info in await call.service.client.models()]
    return {"models": [*found, *map(_stored, await call.service.others())]}


async def ps(call: Call) -> Reply:
    found = []
    for info in await call.service.client.models():
        entry = await _entry(call, info)
        ends = call.service.started + _FOREVER if info.expires is None else info.expires
        found.append(
            {
                **entry,
                "expires_at": datetime.fromtimestamp(ends, UTC).isoformat(),
                "size_vram": 0,
                "context_length": info.context_length,
            }
        )
    return {"models": found}


async def show(call: Call) -> Reply:
    name = f.read(call.fields, "model", str) or f.read(call.fields, "name", str)
    info = await call.service.model(name)
    details = await call.service.client.details(info.name)
    has_fim = {"prefix", "suffix", "middle"} <= details.fim.keys()
    template = details.chat_template
    if has_fim:  # what Continue and others look for before they ask for a fill-in
        template += "{{- /* .Prompt .Suffix */ -}}"
    kind = "completion" if info.generates else "embedding"
    capabilities = [kind, *(["insert"] if has_fim else [])]
    if not dialect_of(details.tool_template or details.chat_template).is_taught:
        capabilities.append("tools")
    if can_think(details.chat_template):
        capabilities.append("thinking")
    return {
        "modelfile": f"FROM {info.name}\n",
        "parameters": _parameters(info),
        "template": template,
        "license": "",
        "modified_at": _modified(call),
        "details": _details(details),
        "model_info": {
            "general.architecture": details.architecture,
            "general.parameter_count": details.parameters,
            f"{details.architecture}.context_length": details.trained_context
            or info.context_length,
            f"{details.architecture}.embedding_length": details.hidden_size or 0,
        },
        "capabilities": capabilities,
    }


async def pull(call: Call) -> Reply:
    """Scripts ask for a model before they use it: one that is here already is had."""
    name = f.read(call.fields, "model", str) or f.read(call.fields, "name", str, "")
    if await call.service.client.use(name) is None:
        raise Refusal(501, "not_supported_error", NOT_HERE)
    done = {"status": "success"}
    if not f.read(call.fields, "stream", bool, True):
        return done

    async def write(put: Put) -> None:
        put({"status": "pulling manifest"})
        put(done)

    return Stream(write, json_line, LINES, ollama_error)


async def no_blob(call: Call) -> Reply:
    raise Refusal(404, "not_found_error", "blob not found")


async def _entry(call: Call, info: ModelInfo) -> dict[str, Any]:
    details = await call.service.client.details(info.name)
    return {
        "name": info.name,
        "model": info.name,
        "modified_at": _modified(call),
        "size": details.size,
        "digest": _digest(details),
        "details": _details(details),
    }


def _stored(model: Stored) -> dict[str, Any]:
    """A model that is not loaded: what only its file tells is left empty."""
    return {
        "name": model.name,
        "model": model.name,
        "modified_at": model.date,
        "size": model.size,
        "digest": model.sha256,
        "details": {
            "parent_model": "",
            "format": "gguf",
            "family": "",
            "families": [],
            "parameter_size": "",
            "quantization_level": "",
        },
    }


def _details(details: ModelDetails) -> dict[str, Any]:
    return {
        "parent_model": "",
        "format": "gguf",
        "family": details.architecture,
        "families": [details.architecture],
        "parameter_size": f"{details.parameters / 1e6:.1f}M",
        "quantization_level": details.quantization,
    }


def _digest(details: ModelDetails) -> str:
    """Tells models apart. Not of the file: reading all of it would take too long."""
    known = (details.name, details.architecture, details.parameters, details.size)
    return hashlib.sha256(repr(known).encode()).hexdigest()


def _modified(call: Call) -> str:
    return datetime.fromtimestamp(call.service.started, UTC).isoformat()


def _parameters(info: ModelInfo) -> str:
    """Lines of a name and a value, as in a Modelfile; Continue throws at any other form."""
    values = {"num_ctx": info.context_length, **info.sampling}
    lines = []
    for name, value in values.items():
        lines += [
            f'{name:<30} "{v}"' if isinstance(v, str) else f"{name:<30} {v}"
            for v in (value if isinstance(value, list | tuple) else [value])
        ]
    return "\n".join(lines)


ROUTES = (
    Route("GET", "/api/version", version, public=True),
    Route("GET", "/api/tags", tags),
    Route("GET", "/api/ps", ps),
    Route("POST", "/api/show", show, takes=("model", "name")),
    Route("POST", "/api/pull", pull, takes=("model", "name", "stream")),
    refused("POST", "/api/push", NOT_HERE),
    refused("POST", "/api/create", NOT_HERE),
    refused("POST", "/api/copy", NOT_HERE),
    refused("DELETE", "/api/delete", NOT_HERE),
    Route("GET", "/api/blobs/{digest}", no_blob),
    refused("POST", "/api/blobs/{digest}", NOT_HERE),
)
