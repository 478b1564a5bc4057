"""Ollama's chat and generate. Answers come line by line unless the request says otherwise."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from edgellm.dialects import Answering, CallPart
from edgellm.errors import RequestError
from edgellm.holes import Hole
from edgellm.server import embeddings, fields as f, ollama_models
from edgellm.server.answers import Answer, Prepared, Step, new_id
from edgellm.server.chat import prepare
from edgellm.server.logprobs import entries
from edgellm.server.ollama_models import ollama_error
from edgellm.server.prompts import RUN_FIELDS, Prompt, request_for
from edgellm.server.routes import LINES, Call, Family, Put, Reply, Route, Stream, json_line
from edgellm.types import Message, ModelInfo, SamplingParams, TokenLogprob

_RENAMED = {"num_predict": "max_tokens", "typical": "typical_p"}


async def chat(call: Call) -> Reply:
    messages = [_message(m) for m in f.messages(call.fields, call.service.settings.max_messages)]
    if not messages:
        return await _loaded(call, {"message": {"role": "assistant", "content": ""}})
    chat = await prepare(call, messages, _params(call), f.tools(call.fields))
    if f.read(call.fields, "stream", bool, True):
        return Stream(partial(_chat_lines, call, chat), json_line, LINES, ollama_error)
    (answer,) = await chat.collect(call.service)
    message = {"role": "assistant", "content": answer.content, **_calls_and_thoughts(answer)}
    logprobs = _logprobs(answer.logprobs)
    return {**_head(chat.info), "message": message, **logprobs, **_ending(answer)}


async def _chat_lines(call: Call, chat: Prepared, put: Put) -> None:
    answer, empty = Answer(), {"role": "assistant", "content": ""}
    unsaid: list[TokenLogprob] = []

    def take(step: Step) -> None:
        answer.take(step)
        unsaid.extend(step.event.logprobs or ())
        for part in step.parts:
            if isinstance(part, CallPart):
                continue  # calls go out whole, when they are complete
            said = {"content" if part.kind == "content" else "thinking": part.text}
            put(
                {
                    **_head(chat.info),
                    "message": {**empty, **said},
                    **_logprobs(unsaid),
                    "done": False,
                }
            )
            unsaid.clear()

    await chat.follow(call.service, take)
    calls = _calls_and_thoughts(answer)
    if "tool_calls" in calls:
        message = {**empty, "tool_calls": calls["tool_calls"]}
        put({**_head(chat.info), "message": message, "done": False})
    put({**_head(chat.info), "message": empty, **_logprobs(unsaid), **_ending(answer)})


async def generate(call: Call) -> Reply:
    prompt = f.read(call.fields, "prompt", str, "")
    if call.fields.get("images"):
        raise RequestError("images: only text can be read", "images")
    if not prompt and not f.read(call.fields, "suffix", str):
        return await _loaded(call, {"response": ""})
    chat = await _prepared(call, prompt, _params(call))
    if f.read(call.fields, "stream", bool, True):
        lines = partial(_generate_lines, call, chat)
        return Stream(lines, json_line, LINES, ollama_error)
    (answer,) = await chat.collect(call.service)
    thoughts = {"thinking": answer.reasoning} if answer.reasoning else {}
    logprobs = _logprobs(answer.logprobs)
    said = {"response": answer.content, **thoughts}
    return {**_head(chat.info), **said, **logprobs, **_generated(call, chat, answer)}


async def _generate_lines(call: Call, chat: Prepared, put: Put) -> None:
    answer = Answer()
    unsaid: list[TokenLogprob] = []

    def take(step: Step) -> None:
        answer.take(step)
        unsaid.extend(step.event.logprobs or ())
        for part in step.parts:
            assert not isinstance(part, CallPart), "there are no tools"
            said = {"response": part.text}
            if part.kind == "reasoning":
                said = {"response": "", "thinking": part.text}
            put({**_head(chat.info), **said, **_logprobs(unsaid), "done": False})
            unsaid.clear()

    await chat.follow(call.service, take)
    ending = _generated(call, chat, answer)
    put({**_head(chat.info), "response": "", **_logprobs(unsaid), **ending})


async def _prepared(call: Call, prompt: str, params: SamplingParams) -> Prepared:
    """The prompt as a message, or as it is when it is raw or something follows it."""
    suffix = f.read(call.fields, "suffix", str)
    if not suffix and not f.read(call.fields, "raw", bool, False):
        messages: list[Message] = [{"role": "user", "content": prompt}]
        system = f.read(call.fields, "system", str)
        if system:
            messages.insert(0, {"role": "system", "content": system})
        chat = await prepare(call, messages, params)
        before = f.read(call.fields, "context", tuple[int, ...], ())
        return replace(chat, request=replace(chat.request, prompt=before + _ids(chat)))
    info = await call.service.model(f.read(call.fields, "model", str))
    given: Prompt = prompt
    if suffix:
        hole, most = Hole(prompt, suffix), params.max_tokens
        given = (await call.service.client.fim_prompt(hole, most, model=info.name)).token_ids
    return Prepared(info, request_for(call, info, given, Answering(params)))


def _ids(chat: Prepared) -> tuple[int, ...]:
    assert not isinstance(chat.request.prompt, str), "a conversation is token ids"
    return chat.request.prompt


def _generated(call: Call, chat: Prepared, answer: Answer) -> dict[str, Any]:
    """The ending, with all that was said so far as `context`, for a request that goes on from it;
    not of a prompt as it is."""
    ending = _ending(answer)
    if isinstance(chat.request.prompt, str) or call.fields.get("suffix"):
        return ending
    return {**ending, "context": [*chat.request.prompt, *answer.token_ids]}


async def _loaded(call: Call, empty: Mapping[str, Any]) -> Reply:
    """The answer to a request that only wants the model in memory, or out of it."""
    seconds = f.keep_alive(call.fields)
    info = await call.service.model(f.read(call.fields, "model", str))
    await call.service.client.use(info.name, seconds)
    reason = "unload" if seconds == 0 else "load"
    return {**_head(info), **empty, "done": True, "done_reason": reason}


def _params(call: Call) -> SamplingParams:
    options = f.read(call.fields, "options", dict[str, Any], {})
    changes: dict[str, Any] = {"n": 1, "logprobs": _num_logprobs(call)}
    form = call.fields.get("format")
    if isinstance(form, dict):
        changes["json_schema"] = form
    elif form == "json":
        changes["json_schema"] = {"type": "object"}
    elif form:
        raise RequestError(f"format is {form!r}: json or a JSON schema is wanted", "format")
    return f.sampling(options, _RENAMED, **changes)


def _num_logprobs(call: Call) -> int | None:
    if not f.read(call.fields, "logprobs", bool, False):
        return None
    return f.read(call.fields, "top_logprobs", int, 0)


def _message(message: Message) -> Message:
    """A message as OpenAI writes it."""
    if message.get("images"):
        raise RequestError("images: only text can be read", "messages")
    shaped = {key: value for key, value in message.items() if key not in ("images", "thinking")}
    if message.get("thinking"):
        shaped["reasoning_content"] = message["thinking"]
    if message.get("tool_name"):
        shaped["name"] = message["tool_name"]
    return shaped


def _head(info: ModelInfo) -> dict[str, Any]:
    return {"model": info.name, "created_at": datetime.now(UTC).isoformat()}


def _ending(answer: Answer) -> dict[str, Any]:
    """Counts, and times in nanoseconds."""
    usage, timings = answer.usage, answer.timings
    reason = "stop" if answer.last.finish_reason == "stop" else "length"
    return {
        "done": True,
        "done_reason": reason,
        "total_duration": int(1e9 * (timings.first_token + timings.decode)),
        "load_duration": 0,
        "prompt_eval_count": usage.prompt_tokens,
        "prompt_eval_cached_count": usage.cached_tokens,
        "prompt_eval_duration": int(1e9 * max(0.0, timings.first_token - timings.queued)),
        "eval_count": usage.completion_tokens,
        "eval_duration": int(1e9 * timings.decode),
    }


def _calls_and_thoughts(answer: Answer) -> dict[str, Any]:
    """Tool calls, their arguments as objects, and the reasoning."""
    found: dict[str, Any] = {"thinking": answer.reasoning} if answer.reasoning else {}
    if answer.calls:
        found["tool_calls"] = [
            {
                "id": part.id or new_id("call_"),
                "function": {"name": part.name, "arguments": json.loads(part.arguments or "{}")},
            }
            for part in answer.calls.values()
        ]
    return found


def _logprobs(logprobs: Sequence[TokenLogprob]) -> dict[str, Any]:
    return {"logprobs": entries(logprobs)} if logprobs else {}


_SHARED = ("model", "stream", "options", "format", "top_logprobs", *RUN_FIELDS)
_CHAT = (*_SHARED, "messages", "tools", "think")
_GENERATE = (*_SHARED, "prompt_text", "suffix", "system", "raw", "think", "context")
FAMILY = Family(
    (
        *ollama_models.ROUTES,
        Route("POST", "/api/chat", chat, takes=_CHAT),
        Route("POST", "/api/generate", generate, takes=_GENERATE),
        *embeddings.OLLAMA_ROUTES,
    ),
    ollama_error,
)
