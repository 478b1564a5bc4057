"""A conversation made ready to be answered, whatever API it came by."""

from typing import Any

from edgellm.dialects import TAIL, Tools, plan
from edgellm.dialects.effort import for_harmony
from edgellm.errors import RequestError
from edgellm.server.answers import Prepared
from edgellm.server.fields import read
from edgellm.server.prompts import prepared_for
from edgellm.server.reasoning import is_apart, reasoning_of
from edgellm.server.routes import Call
from edgellm.types import Messages, SamplingParams


async def prepare(
    call: Call,
    messages: Messages,
    params: SamplingParams,
    tools: Tools | None = None,
    streams: bool = False,
) -> Prepared:
    """The request to the model that the fields name.

    streams: arguments of calls are wanted as they come.
    """
    if not messages:
        raise RequestError("messages is empty: at least one message is expected", "messages")
    client = call.service.client
    info = await call.service.model(read(call.fields, "model", str))
    asked = plan(await client.details(info.name), tools)
    shaped, described = asked.messages(messages), asked.template_tools
    variables = reasoning_of(call.fields)
    if asked.dialect.has_channels:
        variables = for_harmony(variables)
    variables |= read(call.fields, "chat_template_kwargs", dict[str, Any], {})
    begun = _begun(shaped)
    ids = await client.chat_ids(shaped[:-1] if begun else shaped, described, info.name, variables)
    tail = await client.detokenize(ids[-TAIL:], info.name)
    if begun:
        end = asked.end_of_thought(tail)
        ids += tuple(await client.tokenize(end + begun, add_special=False, model=info.name))
        tail = end or tail
    answering = asked.answering(params, tail, streams, is_apart(call.fields))
    return prepared_for(call, info, ids, answering)


def _begun(messages: Messages) -> str:
    """What the conversation has already of the answer: its last message, if it is the model's.

    llama.cpp, Ollama and Anthropic go on with it; OpenAI's API never ends with one.
    """
    last = messages[-1]
    content = last.get("content")
    if last.get("role") != "assistant" or last.get("tool_calls") or len(messages) == 1:
        return ""
    return content if isinstance(content, str) else ""
