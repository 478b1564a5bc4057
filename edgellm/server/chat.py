"""A conversation made ready to be answered, whatever API it came by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edgellm.dialects import TAIL, Answering, Part, Tools, plan
from edgellm.dialects.effort import for_harmony
from edgellm.errors import RequestError
from edgellm.server.answers import Answer, Limits, Step, collect, follow
from edgellm.server.fields import read
from edgellm.server.llama_slots import slot_of
from edgellm.server.prompts import request_for
from edgellm.server.reasoning import is_apart, reasoning_of
from edgellm.server.routes import Call
from edgellm.server.service import Service
from edgellm.server.time_limits import limits_of
from edgellm.types import Messages, ModelInfo, Request, SamplingParams


@dataclass(frozen=True)
class Chat:
    """The request for a conversation, and how its answers are read. slot: llama.cpp's."""

    info: ModelInfo
    request: Request
    answering: Answering
    limits: Limits
    slot: int | None = None

    async def follow(self, service: Service, take: Callable[[Step], None]) -> None:
        """Has `take` called with the steps of all answers, as they come."""
        await follow(service, self.request, take, self.answering.parser, self.limits, self.slot)

    async def tell(
        self, service: Service, begin: Callable[[], None], take: Callable[[Part], None]
    ) -> Answer:
        """The one answer, of whose parts `take` is called with each, after `begin` was once."""
        answer, has_begun = Answer(), False

        def take_step(step: Step) -> None:
            nonlocal has_begun
            if not has_begun:
                has_begun = True
                begin()
            answer.take(step)
            for part in step.parts:
                take(part)

        await self.follow(service, take_step)
        return answer

    async def collect(self, service: Service) -> list[Answer]:
        """All answers, finished."""
        return await collect(service, self.request, self.answering.parser, self.limits, self.slot)


async def prepare(
    call: Call,
    messages: Messages,
    params: SamplingParams,
    tools: Tools | None = None,
    streams: bool = False,
) -> Chat:
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
    request = request_for(call, info, ids, answering.params, answering.shown)
    return Chat(info, request, answering, limits_of(call, params), slot_of(call.fields, info))


def _begun(messages: Messages) -> str:
    """What the conversation has already of the answer: its last message, if it is the model's.

    llama.cpp, Ollama and Anthropic go on with it; OpenAI's API never ends with one.
    """
    last = messages[-1]
    content = last.get("content")
    if last.get("role") != "assistant" or last.get("tool_calls") or len(messages) == 1:
        return ""
    return content if isinstance(content, str) else ""
