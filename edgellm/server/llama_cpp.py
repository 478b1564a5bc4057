"""llama.cpp's own routes, for clients made for llama-server. Fields as of b11434."""

from collections.abc import Mapping
from typing import Any

from edgellm.errors import ContextOverflow
from edgellm.server.endpoint import Call, Family, Reply, Route
from edgellm.server.failures import Failure, Refusal


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
        raise Refusal(503, "unavailable_error", "Loading model")
    return {"status": "ok"}


FAMILY = Family(
    (
        Route("GET", "/health", health, public=True),
        Route("GET", "/v1/health", health, public=True),
    ),
    llama_cpp_error,
)
