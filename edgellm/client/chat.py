"""A conversation as a request, and how the answer is read. Knows no engine and no front end."""

from typing import Any

from edgellm.client.protocol import Client
from edgellm.dialects import TAIL, Answering, plan
from edgellm.dialects.effort import at_level, has_switch
from edgellm.errors import RequestError
from edgellm.types import Messages, Request, SamplingParams


async def chat_request(
    client: Client,
    messages: Messages,
    params: SamplingParams,
    model: str,
    thinking: str | None = None,
) -> tuple[Request, Answering]:
    """What asks a model for the next message, without tools.

    thinking: one of LEVELS; None leaves it to the template. The answer's parser tells its reasoning
    from its text. RequestError for a level where the template has no switch.
    """
    variables = await thinking_variables(client, model, thinking) if thinking else {}
    if variables is None:
        raise RequestError(f"the chat template of {model} has no switch for thinking", "thinking")
    ids = await client.chat_ids(messages, model=model, variables=variables)
    tail = await client.detokenize(ids[-TAIL:], model)
    answering = plan(await client.details(model)).answering(params, tail)
    return Request(ids, answering.params, model=model, shown=answering.shown), answering


async def thinking_variables(client: Client, model: str, level: str) -> dict[str, Any] | None:
    """Variables for the chat template of a loaded model that stand for one of LEVELS; None where
    the template has no switch: the model thinks as much as it thinks."""
    details = await client.details(model)
    if not has_switch(details.chat_template):
        return None
    return at_level(level, plan(details).dialect.has_channels)
