"""Prompts as the completion routes take them: text, token ids, mixed lists, lists of prompts; and
the engine's request for one, whatever route it came by.
"""

from typing import Any

from edgellm.client import Client
from edgellm.dialects import Answering
from edgellm.errors import RequestError
from edgellm.holes import Hole
from edgellm.server import fields as f
from edgellm.server.answers import Prepared
from edgellm.server.failures import Refusal
from edgellm.server.llama_slots import slot_of
from edgellm.server.routes import Call
from edgellm.server.time_limits import limits_of
from edgellm.types import ModelInfo, Request

Prompt = str | tuple[int, ...]
RUN_FIELDS = ("keep_alive", "keep_prompt", "lora")  # what `request_for` reads
MAX_TEXT = 1 << 20  # characters
_MAX_PROMPTS = 64


def refuse_long(*texts: str) -> None:
    """Refusal for more text than is made tokens at once where no context bounds it: letters without
    a blank between them take long, and much memory."""
    length = sum(map(len, texts))
    if length > MAX_TEXT:
        raise Refusal(
            413,
            "invalid_request_error",
            f"{length} characters of text: at most {MAX_TEXT} are taken at once, send it in parts",
        )


def texts_of(hole: Hole) -> tuple[str, ...]:
    """All text around a hole."""
    return (hole.prefix, hole.suffix, hole.prompt, *(file.text for file in hole.files))


def request_for(call: Call, info: ModelInfo, prompt: Prompt, answering: Answering) -> Request:
    """The request for an answer to a prompt, with what the fields say of how it is run."""
    return Request(
        prompt,
        answering.params,
        model=info.name,
        shown=answering.shown,
        adapters=f.adapters(call.fields, info, call.service.scales),
        keep_alive=f.keep_alive(call.fields),
        keep_prompt=f.read(call.fields, "keep_prompt", bool, False),
    )


def prepared_for(call: Call, info: ModelInfo, prompt: Prompt, answering: Answering) -> Prepared:
    """The same with how its answers are read, and what the fields say of their end and slot."""
    request = request_for(call, info, prompt, answering)
    limits, slot = limits_of(call, request.params), slot_of(call.fields, info)
    return Prepared(info, request, answering.parser, limits, slot)


async def read_prompts(
    client: Client, value: Any, model: str, most: int = _MAX_PROMPTS, name: str = "prompt"
) -> list[Prompt]:
    """The prompts in the field of this name, ids or text. RequestError for another form.

    A list is one prompt when it holds a number, else a list of prompts.
    """
    if value is None:
        return [""]
    if not isinstance(value, list):
        return [await _prompt(client, value, model, name)]
    if not value:
        raise RequestError(f"{name} is an empty list", name)
    if any(_is_id(item) for item in value):
        return [await _prompt(client, value, model, name)]
    if len(value) > most:
        raise RequestError(f"{name} has {len(value)} texts: at most {most} are read", name)
    return [await _prompt(client, item, model, name) for item in value]


async def _prompt(client: Client, value: Any, model: str, name: str) -> Prompt:
    if isinstance(value, dict):  # llama.cpp's form for prompts with images
        if value.get("multimodal_data"):
            raise RequestError("multimodal_data: only text can be read", name)
        value = value.get("prompt_string")
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(_is_id(v) or isinstance(v, str) for v in value):
        raise RequestError(f"{name} is neither text nor a list of token ids", name)
    refuse_long(*(item for item in value if isinstance(item, str)))
    ids: list[int] = []
    for i, item in enumerate(value):
        if isinstance(item, str):
            ids += await client.tokenize(item, add_special=i == 0, model=model)
        else:
            ids.append(item)
    return tuple(ids)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
