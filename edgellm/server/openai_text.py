"""OpenAI's completions of plain text, with `suffix` for filling in the middle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any

from edgellm.dialects import Answering
from edgellm.errors import RequestError
from edgellm.holes import Hole
from edgellm.server import fields as f
from edgellm.server.answers import (
    Answer,
    Prepared,
    Step,
    llama_timings,
    new_id,
    total,
)
from edgellm.server.logprobs import finite
from edgellm.server.openai import RENAMED, now, openai_error, usage_of
from edgellm.server.openai_chat import DONE, finish_reason
from edgellm.server.progress import TAKES as _PROGRESS, prompt_progress, with_progress
from edgellm.server.prompts import (
    RUN_FIELDS,
    prepared_for,
    read_prompts,
    refuse_long,
    texts_of,
)
from edgellm.server.routes import EVENTS, Call, Put, Reply, Route, Stream, server_sent
from edgellm.server.time_limits import TAKES, cuts, silence_of, suffix_limit
from edgellm.types import ModelInfo, Request, TokenLogprob

_RENAMED = {**RENAMED, "n_probs": "logprobs"}


async def completions(call: Call) -> Reply:
    info = await call.service.model(f.read(call.fields, "model", str))
    prepared, cut = await _prepared(call, info)
    if f.read(call.fields, "stream", bool, False):
        return Stream(
            partial(_chunks, call, info, prepared, cut),
            server_sent,
            EVENTS,
            openai_error,
            DONE,
            silence_of(call),
        )
    echo = await _echo(call, prepared)
    answers = [await each.collect(call.service) for each in prepared]
    usages = [total(own) for own in answers]
    flat = [answer for own in answers for answer in own]
    return {
        "id": new_id("cmpl-"),
        "object": "text_completion",
        "created": now(),
        "model": info.name,
        "system_fingerprint": "edgellm",
        "choices": [
            {
                "index": i,
                "text": echo[i * len(prepared) // len(flat)] + answer.content,
                "logprobs": _logprobs(prepared[0].request, answer.logprobs),
                "finish_reason": finish_reason(answer.last.finish_reason, False),
            }
            for i, answer in enumerate(flat)
        ],
        "usage": _sum([usage_of(usage) for usage in usages]),
        "timings": {**llama_timings(usages[-1], flat[-1].timings), **cut},
    }


async def _prepared(call: Call, info: ModelInfo) -> tuple[list[Prepared], Mapping[str, int]]:
    """One for each prompt, and what did not fit of a suffix and what is before it."""
    params = f.sampling(
        call.fields,
        _RENAMED,
        **({"max_tokens": 16} if _has_no_limit(call) else {}),
        **f.response_format(call.fields),
    )
    suffix = f.read(call.fields, "suffix", str)
    if suffix:
        prefix = f.read(call.fields, "prompt", str, "")
        hole, most = Hole(prefix, suffix), params.max_tokens
        refuse_long(*texts_of(hole))
        filled = await call.service.client.fim_prompt(hole, most, suffix_limit(call), info.name)
        return [prepared_for(call, info, filled.token_ids, Answering(params))], cuts(filled)
    prompts = await read_prompts(call.service.client, call.fields.get("prompt"), info.name)
    return [prepared_for(call, info, prompt, Answering(params)) for prompt in prompts], {}


def _has_no_limit(call: Call) -> bool:
    """OpenAI's default is 16 tokens; every client that wants more says so."""
    names = ("max_tokens", "max_completion_tokens", "n_predict")
    return all(call.fields.get(name) is None for name in names)


async def _chunks(
    call: Call,
    info: ModelInfo,
    prepared: Sequence[Prepared],
    cut: Mapping[str, int],
    put: Put,
) -> None:
    options = f.read(call.fields, "stream_options", dict[str, Any], {})
    is_timed = f.read(call.fields, "timings_per_token", bool, False)
    head = {
        "id": new_id("cmpl-"),
        "object": "text_completion",
        "created": now(),
        "model": info.name,
        "system_fingerprint": "edgellm",
    }
    usages, first = [], 0
    for echo, each in zip(await _echo(call, prepared), prepared, strict=True):
        chunks = _Chunks(put, head, first, each.request, echo, cut, is_timed)
        await with_progress(call, each).follow(call.service, chunks.take)
        first += each.request.params.n
        usages.append(usage_of(total(list(chunks.answers.values()))))
    if options.get("include_usage"):
        put({**head, "choices": [], "usage": _sum(usages)})


@dataclass
class _Chunks:
    """The chunks of the answers to one prompt. first: the index of its first answer."""

    put: Put
    head: Mapping[str, Any]
    first: int
    request: Request
    echo: str
    cut: Mapping[str, int]
    is_timed: bool
    answers: dict[int, Answer] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        event = step.event
        is_first = event.index not in self.answers
        answer = self.answers.setdefault(event.index, Answer())
        answer.take(step)
        last = event.finish_reason
        text = (self.echo if is_first else "") + step.text
        if not (text or last or event.logprobs or event.progress):
            return
        choice: dict[str, Any] = {
            "index": self.first + event.index,
            "text": text,
            "logprobs": _logprobs(self.request, event.logprobs or ()),
            "finish_reason": None if last is None else finish_reason(last, False),
        }
        chunk = {**self.head, "choices": [choice]}
        if last is not None:
            chunk["timings"] = {**llama_timings(answer.usage, answer.timings), **self.cut}
        elif self.is_timed:
            chunk["timings"] = answer.timings_so_far()
        if event.progress is not None:
            chunk.update(prompt_progress(event.progress))
        self.put(chunk)


async def _echo(call: Call, prepared: Sequence[Prepared]) -> list[str]:
    """What goes before each answer: its prompt, when that is asked for."""
    if not f.read(call.fields, "echo", bool, False):
        return [""] * len(prepared)
    if any(each.request.params.logprobs is not None for each in prepared):
        raise RequestError("echo with logprobs: a prompt's are not reported", "echo")
    client = call.service.client
    return [
        each.request.prompt
        if isinstance(each.request.prompt, str)
        else await client.detokenize(each.request.prompt, each.info.name)
        for each in prepared
    ]


def _logprobs(request: Request, logprobs: Sequence[TokenLogprob]) -> dict[str, Any] | None:
    if request.params.logprobs is None:
        return None
    lengths = [len(entry.text) for entry in logprobs]
    return {
        "tokens": [entry.text for entry in logprobs],
        "token_logprobs": [finite(entry.logprob) for entry in logprobs],
        "top_logprobs": [
            {
                piece.decode("utf-8", "replace"): finite(value)
                for (_, value), piece in zip(entry.top, entry.top_bytes, strict=True)
            }
            for entry in logprobs
        ],
        "text_offset": list(accumulate(lengths[:-1], initial=0)) if lengths else [],
    }


def _sum(usages: Sequence[Any]) -> dict[str, Any]:
    """Usage objects added up."""
    keys = ("prompt_tokens", "completion_tokens", "total_tokens")
    cached = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages)
    return {
        **{key: sum(usage[key] for usage in usages) for key in keys},
        "prompt_tokens_details": {"cached_tokens": cached},
    }


_TAKES = (
    *("model", "prompt", "suffix", "echo", "stream", "stream_options", "response_format"),
    *("t_max_prompt_ms", "id_slot", "timings_per_token", *TAKES, *_PROGRESS, *RUN_FIELDS),
)
ROUTES = (Route("POST", "/v1/completions", completions, takes=_TAKES, samples=True),)
