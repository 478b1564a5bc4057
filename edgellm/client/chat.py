"""A conversation as a request, and how the answer is read. Knows no engine and no front end."""

from edgellm.client.protocol import Client
from edgellm.dialects import TAIL, Answering, plan
from edgellm.types import Messages, Request, SamplingParams


async def chat_request(
    client: Client, messages: Messages, params: SamplingParams, model: str
) -> tuple[Request, Answering]:
    """What asks a model for the next message, without tools.

    The answer's parser tells its reasoning from its text.
    """
    ids = await client.chat_ids(messages, model=model)
    tail = await client.detokenize(ids[-TAIL:], model)
    answering = plan(await client.details(model)).answering(params, tail)
    return Request(ids, answering.params, model=model, shown=answering.shown), answering
