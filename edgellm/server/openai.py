"""What OpenAI's routes share, and its models and embeddings. Field names as in its API reference.

Clients put `/v1` before the path or not; both are answered.
"""

import base64
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

from edgellm.errors import ContextOverflow, NoModel
from edgellm.server.failures import Failure
from edgellm.server.llama_cpp import llama_cpp_error
from edgellm.server.routes import NOT_HERE, Call, Reply, Route, refused
from edgellm.types import ModelInfo, Usage

RENAMED = {
    "max_completion_tokens": "max_tokens",
    "n_predict": "max_tokens",
    "repetition_penalty": "repeat_penalty",
    "n_cmpl": "n",
    "guided_regex": "regex",
    "guided_choice": "choices",
}
# llama.cpp's numbers for kinds of tokenizers (llama_vocab_type).
_VOCAB_TYPES = {"llama": 1, "gpt2": 2, "gemma4": 2, "bert": 3, "t5": 4, "rwkv": 5}


def openai_error(failure: Failure) -> Mapping[str, Any]:
    error = dict(llama_cpp_error(failure)["error"])
    if isinstance(failure.error, ContextOverflow):
        error["code"] = "context_length_exceeded"  # clients shorten what they sent
    return {"error": {"param": None, **error}}


def usage_of(usage: Usage, reasoning_tokens: int = 0) -> Mapping[str, Any]:
    """Token counts. llm and others take the first three for granted."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": reasoning_tokens},
    }


async def models(call: Call) -> Reply:
    data = [await _entry(call, info) for info in await call.service.client.models()]
    data += [_named(call, other.name) for other in await call.service.others()]
    return {"object": "list", "data": data}


async def model(call: Call) -> Reply:
    name = call.path["model"]
    for info in await call.service.client.models():
        if info.name == name:
            return await _entry(call, info)
    if name in [other.name for other in await call.service.others()]:
        return _named(call, name)
    raise NoModel(f"no model {name!r} is loaded or stored here")


async def _entry(call: Call, info: ModelInfo) -> dict[str, Any]:
    details = await call.service.client.details(info.name)
    return {
        **_named(call, info.name),
        "aliases": [info.name],
        "tags": [],
        "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
        "meta": {
            "vocab_type": _VOCAB_TYPES.get(details.tokenizer, 0),
            "n_vocab": info.vocab_size,
            "n_ctx": info.context_length,
            "n_ctx_train": details.trained_context or info.context_length,
            "n_embd": details.hidden_size or 0,
            "n_params": details.parameters,
            "size": details.size,
            "ftype": details.quantization,
        },
    }


def _named(call: Call, name: str) -> dict[str, Any]:
    created = int(call.service.started)
    return {"id": name, "object": "model", "created": created, "owned_by": "edgellm"}


def embedding_as(values: Sequence[float], encoding_format: str) -> str | list[float]:
    """An embedding as the request wants it: base64 of little-endian 32-bit floats, or a list."""
    if encoding_format == "base64":
        return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
    return list(values)


def now() -> int:
    return int(time.time())


ROUTES = (
    Route("GET", "/v1/models", models, public=True),
    Route("GET", "/models", models, public=True),
    refused("POST", "/models", NOT_HERE),
    refused("DELETE", "/models", NOT_HERE),
    Route("GET", "/v1/models/{model:path}", model),
)
