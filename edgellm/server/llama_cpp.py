"""llama.cpp's own routes but for completion, for clients made for llama-server. As of b11434."""

from collections.abc import Mapping
from typing import Any

from edgellm.errors import ContextOverflow, NoModel, RequestError
from edgellm.server import fields as f
from edgellm.server.failures import Failure, Refusal
from edgellm.server.metrics import exposition
from edgellm.server.prompts import refuse_long
from edgellm.server.routes import Call, Plain, Reply, Route, refused
from edgellm.server.service import RETRY_AFTER
from edgellm.types import Message

_METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


def llama_cpp_error(failure: Failure) -> Mapping[str, Any]:
    error: dict[str, Any] = {
        "code": failure.status,
        "message": failure.message,
        "type": failure.kind,
    }
    if failure.field is not None:
        error["param"] = failure.field
    if isinstance(failure.error, ContextOverflow):
        error["n_prompt_tokens"] = failure.error.prompt_tokens
        error["n_ctx"] = failure.error.context_length
    return {"error": error}


async def health(call: Call) -> Reply:
    if call.service.is_loading:
        raise Refusal(503, "unavailable_error", "Loading model", RETRY_AFTER)
    return {"status": "ok"}


async def metrics(call: Call) -> Reply:
    return Plain(await exposition(call.service), _METRICS_TYPE)


async def tokenize(call: Call) -> Reply:
    info = await call.service.model(f.read(call.fields, "model", str))
    text = f.read(call.fields, "content", str, "")
    refuse_long(text)
    ids = await call.service.client.tokenize(
        text,
        f.read(call.fields, "add_special", bool, False),
        f.read(call.fields, "parse_special", bool, True),
        info.name,
    )
    if not f.read(call.fields, "with_pieces", bool, False):
        return {"tokens": ids}
    pieces = await call.service.client.token_bytes(ids, info.name)
    return {"tokens": [_piece(i, piece) for i, piece in zip(ids, pieces, strict=True)]}


def _piece(token_id: int, piece: bytes) -> dict[str, Any]:
    try:
        return {"id": token_id, "piece": piece.decode()}
    except UnicodeDecodeError:
        return {"id": token_id, "piece": list(piece)}


async def detokenize(call: Call) -> Reply:
    info = await call.service.model(f.read(call.fields, "model", str))
    ids = f.read(call.fields, "tokens", tuple[int, ...], ())
    return {"content": await call.service.client.detokenize(ids, info.name)}


async def apply_template(call: Call) -> Reply:
    info = await call.service.model(f.read(call.fields, "model", str))
    messages = f.messages(call.fields, call.service.settings.max_messages)
    variables = f.read(call.fields, "chat_template_kwargs", dict[str, Any], {})
    tools: list[Message] | None = [*f.objects(call.fields, "tools")] or None
    prompt = await call.service.client.chat_prompt(messages, tools, info.name, variables)
    return {"prompt": prompt}


async def lora_adapters(call: Call) -> Reply:
    info = await call.service.model(call.query.get("model"))
    changed = call.service.scales.get(info.name)
    return [
        {
            "id": i,
            "path": adapter.name,
            "scale": adapter.scale if changed is None else changed.get(adapter.name, 0.0),
        }
        for i, adapter in enumerate(info.adapters)
    ]


async def scale_adapters(call: Call) -> Reply:
    """Changes what requests that say nothing take of the adapters; those left out are 0."""
    info = await call.service.model(call.query.get("model"))
    scales = f.adapters(call.fields, info, {})
    if scales is None:
        raise RequestError("a list of objects with id and scale is expected", "lora")
    call.service.scales[info.name] = scales
    return {"success": True}


async def load_model(call: Call) -> Reply:
    """Brings in a model that is stored here, as a request that names it would."""
    name = f.read(call.fields, "model", str, "")
    if await call.service.client.use(name) is None:
        raise NoModel(f"no model {name!r} is stored here: see `edgellm list`")
    return {"success": True}


async def unload_model(call: Call) -> Reply:
    await call.service.client.unload(f.read(call.fields, "model", str, ""))
    return {"success": True}


_HEARD = "only text can be read, no sound"
_TOKENIZE = ("model", "content", "add_special", "parse_special", "with_pieces")
ROUTES = (
    Route("GET", "/health", health, public=True),
    Route("GET", "/v1/health", health, public=True),
    Route("GET", "/metrics", metrics),
    Route("POST", "/tokenize", tokenize, takes=_TOKENIZE),
    Route("POST", "/detokenize", detokenize, takes=("model", "tokens")),
    Route(
        "POST",
        "/apply-template",
        apply_template,
        takes=("model", "messages", "tools"),
        needs=("messages",),
    ),
    Route("GET", "/lora-adapters", lora_adapters),
    Route("POST", "/lora-adapters", scale_adapters, takes=("lora",), list_as="lora"),
    Route("POST", "/models/load", load_model, takes=("model",)),
    Route("POST", "/models/unload", unload_model, takes=("model",)),
    refused("POST", "/audio/transcriptions", _HEARD),
    refused("POST", "/v1/audio/transcriptions", _HEARD),
)
