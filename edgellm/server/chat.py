"""A conversation made ready to be answered, whatever API it came by."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgellm.dialects import TAIL, Answering, Tools, plan
from edgellm.errors import RequestError
from edgellm.server.endpoint import Call
from edgellm.server.fields import adapters, keep_alive, read
from edgellm.types import Messages, ModelInfo, Request, SamplingParams


def thinking(is_on: bool) -> dict[str, bool]:
    """The variables by which templates know whether to reason."""
    return {"enable_thinking": is_on, "thinking": is_on}


@dataclass(frozen=True)
class Chat:
    """The request for a conversation, and how its answers are read."""

    info: ModelInfo
    request: Request
    answering: Answering


async def prepare(
    call: Call,
    messages: Messages,
    params: SamplingParams,
    tools: Tools | None = None,
    variables: Mapping[str, Any] | None = None,
    streams: bool = False,
) -> Chat:
    """The request to the model that the fields name.

    variables: what else the template may read. streams: arguments of calls are wanted as they come.
    """
    if not messages:
        raise RequestError("messages is empty: at least one message is expected", "messages")
    client = call.service.client
    info = await call.service.model(read(call.fields, "model", str))
    asked = plan(await client.details(info.name), tools)
    shaped, described = asked.messages(messages), asked.template_tools
    ids = await client.chat_ids(shaped, described, info.name, variables)
    tail = await client.detokenize(ids[-TAIL:], info.name)
    answering = asked.answering(params, tail, streams)
    request = Request(
        ids,
        answering.params,
        model=info.name,
        shown=answering.shown,
        adapters=adapters(call.fields, info, call.service.scales),
        keep_alive=keep_alive(call.fields),
    )
    return Chat(info, request, answering)
