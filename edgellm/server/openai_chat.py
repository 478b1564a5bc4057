"""OpenAI's chat completions."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from edgellm.dialects import CallPart, Part
from edgellm.errors import RequestError
from edgellm.server import fields as f
from edgellm.server.answers import Answer, Prepared, Step, llama_timings, new_id, total
from edgellm.server.chat import prepare
from edgellm.server.logprobs import entries
from edgellm.server.openai import RENAMED, now, openai_error, usage_of
from edgellm.server.progress import TAKES as _PROGRESS, prompt_progress, with_progress
from edgellm.server.prompts import RUN_FIELDS
from edgellm.server.routes import (
    EVENTS,
    Call,
    Put,
    Reply,
    Route,
    Stream,
    TextFrame,
    server_sent,
)
from edgellm.server.time_limits import TAKES, silence_of
from edgellm.types import SamplingParams, TokenLogprob, Usage

DONE = b"data: [DONE]\n\n"


def params_of(fields: Mapping[str, Any]) -> SamplingParams:
    return f.sampling(fields, RENAMED, logprobs=_logprobs(fields), **f.response_format(fields))


async def chat_completions(call: Call) -> Reply:
    chat = await _prepare(call)
    if f.read(call.fields, "stream", bool, False):
        chunks, silence = partial(_chunks, call, chat), silence_of(call)
        return Stream(chunks, server_sent, EVENTS, openai_error, DONE, silence)
    answers = await chat.collect(call.service)
    usage = total(answers)
    return {
        "id": new_id("chatcmpl-"),
        "object": "chat.completion",
        "created": now(),
        "model": chat.info.name,
        "system_fingerprint": "edgellm",
        "choices": [_choice(chat, i, answer) for i, answer in enumerate(answers)],
        "usage": usage_of(usage, _thought(answers)),
        "timings": llama_timings(usage, answers[0].timings),
    }


async def input_tokens(call: Call) -> Reply:
    """How long the prompt of such a request is."""
    chat = await _prepare(call)
    return {"object": "response.input_tokens", "input_tokens": len(chat.request.prompt)}


async def _prepare(call: Call) -> Prepared:
    messages = f.messages(call.fields, call.service.settings.max_messages)
    streams = f.read(call.fields, "stream", bool, False)
    return await prepare(call, messages, params_of(call.fields), f.tools(call.fields), streams)


def _choice(chat: Prepared, index: int, answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.content}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [_call(part) for part in answer.calls.values()]
        message["content"] = answer.content or None
    logprobs = None
    if chat.request.params.logprobs is not None:
        logprobs = _content_logprobs(answer.logprobs)
    return {
        "index": index,
        "message": message,
        "logprobs": logprobs,
        "finish_reason": finish_reason(answer.last.finish_reason, bool(answer.calls)),
    }


async def _chunks(call: Call, chat: Prepared, put: Put) -> None:
    options = f.read(call.fields, "stream_options", dict[str, Any], {})
    head = {
        "id": new_id("chatcmpl-"),
        "object": "chat.completion.chunk",
        "created": now(),
        "model": chat.info.name,
        "system_fingerprint": "edgellm",
    }
    is_timed = f.read(call.fields, "timings_per_token", bool, False)
    answers: dict[int, Answer] = {}
    said: dict[int, TextFrame] = {}  # by answer: nearly all pieces are text alone

    def take(step: Step) -> None:
        index = step.event.index
        if index not in answers:
            answers[index] = Answer()
            said[index] = _said(head, index)
            put({**head, "choices": [_delta(index, {"role": "assistant", "content": ""})]})
        answers[index].take(step)
        text = None if is_timed else step.plain
        if text is not None:
            put(said[index](text))
            return
        timings = {"timings": answers[index].timings_so_far()} if is_timed else {}
        logprobs = None
        if step.event.logprobs:
            logprobs = _content_logprobs(step.event.logprobs)
        if step.event.progress is not None:
            told = prompt_progress(step.event.progress)
            put({**head, "choices": [_delta(index, {})], **told})
        for part in step.parts:
            put({**head, "choices": [_delta(index, _delta_of(part), logprobs)], **timings})
            logprobs = None
        if logprobs is not None:
            put({**head, "choices": [_delta(index, {}, logprobs)]})
        if step.event.finish_reason is not None:
            put({**head, **_last(step, answers[index])})

    await with_progress(call, chat).follow(call.service, take)
    if options.get("include_usage"):
        found = list(answers.values())
        put({**head, "choices": [], "usage": usage_of(total(found), _thought(found))})


def _said(head: Mapping[str, Any], index: int) -> TextFrame:
    """The chunks of an answer that say something and no more."""
    return TextFrame(
        server_sent, lambda text: {**head, "choices": [_delta(index, {"content": text})]}
    )


def _thought(answers: Sequence[Answer]) -> int:
    return sum(answer.reasoning_tokens for answer in answers)


def _last(step: Step, answer: Answer) -> dict[str, Any]:
    choice = _delta(step.event.index, {})
    choice["finish_reason"] = finish_reason(step.event.finish_reason, bool(answer.calls))
    usage = step.event.usage or Usage(0, 0)
    return {"choices": [choice], "timings": llama_timings(usage, answer.timings)}


def _delta(index: int, delta: Mapping[str, Any], logprobs: Any = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": None}


def _delta_of(part: Part) -> dict[str, Any]:
    if isinstance(part, CallPart):
        return {"tool_calls": [{"index": part.index, **_call(part)}]}
    return {"content" if part.kind == "content" else "reasoning_content": part.text}


def _call(part: CallPart) -> dict[str, Any]:
    """A tool call, or more of one: only its first part says which it is."""
    function: dict[str, Any] = {"arguments": part.arguments}
    if part.name is None:
        return {"function": function}
    return {
        "id": part.id or new_id("call_"),
        "type": "function",
        "function": {"name": part.name, **function},
    }


def finish_reason(reason: str | None, has_calls: bool) -> str:
    """OpenAI's word. An answer that was aborted was cut like one that is too long."""
    if reason == "stop":
        return "tool_calls" if has_calls else "stop"
    return "length"


def _logprobs(fields: Mapping[str, Any]) -> int | None:
    """Alternatives per token: of top_logprobs when logprobs is true; llama.cpp's n_probs."""
    wanted = fields.get("logprobs")
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        return wanted
    if wanted is not None and not isinstance(wanted, bool):
        raise RequestError("logprobs is true or false", "logprobs")
    if wanted:
        return f.read(fields, "top_logprobs", int, 0)
    return f.read(fields, "n_probs", int) or None


def _content_logprobs(logprobs: Sequence[TokenLogprob]) -> dict[str, Any]:
    return {"content": entries(logprobs)}


_TAKES = (
    *("model", "messages", "stream", "stream_options", "tools", "tool_choice", "response_format"),
    *(
        "parallel_tool_calls",
        "max_completion_tokens",
        "top_logprobs",
        "chat_template_kwargs",
        "reasoning_effort",
        "enable_thinking",
        "thinking",
        "reasoning_format",
    ),
    *("id_slot", "timings_per_token", *TAKES, *_PROGRESS, *RUN_FIELDS),
)
ROUTES = tuple(
    Route("POST", path + more, handler, takes=_TAKES, needs=("messages",), samples=True)
    for path in ("/v1/chat/completions", "/chat/completions")
    for more, handler in (("", chat_completions), ("/input_tokens", input_tokens))
)
