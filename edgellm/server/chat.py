"""A conversation made ready to be answered, whatever API it came by."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgellm.dialects import Plan, plan
from edgellm.errors import RequestError
from edgellm.server.endpoint import Call
from edgellm.server.fields import adapters, read
from edgellm.types import Message, Messages, ModelInfo, Request, SamplingParams


@dataclass(frozen=True)
class Tools:
    """functions, choice: as in OpenAI's chat API."""

    functions: list[Message] | None = None
    choice: Any = "auto"


@dataclass(frozen=True)
class Chat:
    """The request for a conversation, and how its answers are read."""

    info: ModelInfo
    request: Request
    plan: Plan


async def prepare(
    call: Call,
    messages: Messages,
    params: SamplingParams,
    tools: Tools | None = None,
    variables: Mapping[str, Any] | None = None,
) -> Chat:
    """The request to the model that the fields name. variables: what else the template may read."""
    if not messages:
        raise RequestError("messages is empty: at least one message is expected", "messages")
    client = call.service.client
    info = await call.service.model(read(call.fields, "model", str))
    asked = Plan()
    if tools is not None and tools.functions:
        asked = plan(await client.details(info.name), tools.functions, tools.choice)
    if asked.params:
        params = SamplingParams(**{**params.given, **asked.params})
    ids = await client.chat_ids(messages, asked.tools, info.name, variables)
    request = Request(
        ids,
        params,
        model=info.name,
        skip_special=asked.skip_special,
        adapters=adapters(call.fields, info),
    )
    return Chat(info, request, asked)
