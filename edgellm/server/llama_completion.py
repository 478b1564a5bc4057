"""llama.cpp's completion and infill routes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from edgellm.dialects import Answering
from edgellm.errors import RequestError
from edgellm.holes import Hole, SourceFile
from edgellm.server import fields as f
from edgellm.server.answers import Answer, Prepared, Step, llama_timings
from edgellm.server.llama_cpp import llama_cpp_error
from edgellm.server.llama_settings import generation_settings
from edgellm.server.logprobs import entries
from edgellm.server.progress import TAKES as _PROGRESS, prompt_progress, with_progress
from edgellm.server.prompts import (
    RUN_FIELDS,
    Prompt,
    prepared_for,
    read_prompts,
    refuse_long,
    texts_of,
)
from edgellm.server.routes import EVENTS, Call, Put, Reply, Route, Stream, server_sent
from edgellm.server.time_limits import TAKES as _LIMITS, cuts, silence_of, suffix_limit
from edgellm.types import ModelInfo, SamplingParams, TokenEvent, TokenLogprob

_RENAMED = {"n_predict": "max_tokens", "n_probs": "logprobs", "n_cmpl": "n", "typ_p": "typical_p"}
_STOP_TYPES = {"length": "limit", "abort": "limit", None: "none"}


@dataclass(frozen=True)
class _Told:
    """What the request wants to be told: these fields of an answer, all if there are none; tokens,
    where the answer is whole; timings with every piece. settings: as they are told."""

    fields: tuple[str, ...]
    tokens: bool
    timings: bool
    settings: Mapping[str, Any]

    def selected(self, reply: dict[str, Any]) -> dict[str, Any]:
        """`a/b` is lifted to the root under that name."""
        if not self.fields:
            return reply
        selected: dict[str, Any] = {}
        for path in self.fields:
            value: Any = reply
            for key in path.split("/"):
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None:
                selected[path] = value
        return selected


@dataclass(frozen=True)
class _Job:
    """One prompt to answer. index: of its first answer. cut: tokens that did not fit, by what they
    belong to."""

    index: int
    prepared: Prepared
    cut: Mapping[str, int]
    told: _Told


async def completion(call: Call) -> Reply:
    info = await call.service.model(f.read(call.fields, "model", str))
    params = _params(call)
    prompts = await read_prompts(call.service.client, call.fields.get("prompt"), info.name)
    return await _reply(call, info, params, prompts, {})


async def infill(call: Call) -> Reply:
    info = await call.service.model(f.read(call.fields, "model", str))
    params = _params(call)
    extra = f.objects(call.fields, "input_extra")
    hole = Hole(
        prefix=f.read(call.fields, "input_prefix", str, ""),
        suffix=f.read(call.fields, "input_suffix", str, ""),
        prompt=f.read(call.fields, "prompt", str, ""),
        files=tuple(
            SourceFile(f.read(e, "filename", str, "tmp"), f.read(e, "text", str, "")) for e in extra
        ),
    )
    refuse_long(*texts_of(hole))
    filled = await call.service.client.fim_prompt(
        hole, params.max_tokens, suffix_limit(call), info.name
    )
    return await _reply(call, info, params, [filled.token_ids], cuts(filled))


def _params(call: Call) -> SamplingParams:
    schema = call.fields.get("json_schema")
    grammar = None if schema is not None else call.fields.get("grammar")
    params = f.sampling(call.fields, _RENAMED, grammar=grammar)
    if params.logprobs and f.read(call.fields, "post_sampling_probs", bool, False):
        raise RequestError(
            "post_sampling_probs: probabilities are reported as the model gives them, before any "
            "sampler: leave it out",
            "post_sampling_probs",
        )
    return params


def _check_keep(call: Call, info: ModelInfo) -> None:
    """n_keep tokens of the prompt are kept when the context is full. Here all of them always are:
    an answer ends there."""
    keep = f.read(call.fields, "n_keep", int, 0)
    if not -1 <= keep <= info.context_length:
        raise RequestError(f"n_keep is {keep}: -1 to {info.context_length} is expected", "n_keep")


async def _reply(
    call: Call,
    info: ModelInfo,
    params: SamplingParams,
    prompts: Sequence[Prompt],
    cut: Mapping[str, int],
) -> Reply:
    _check_keep(call, info)
    told = _told(call, params)
    jobs = [
        _Job(i * params.n, prepared_for(call, info, prompt, Answering(params)), cut, told)
        for i, prompt in enumerate(prompts)
    ]
    if f.read(call.fields, "stream", bool, False):
        chunks = partial(_chunks, call, jobs)
        silence = silence_of(call)
        return Stream(chunks, server_sent, EVENTS, llama_cpp_error, silence=silence)
    found = []
    for job in jobs:
        for answer in await job.prepared.collect(call.service):
            tokens = answer.token_ids if told.tokens else []
            whole = {"content": answer.content, "tokens": tokens, **_ending(job, answer)}
            found.append(told.selected({**whole, **_probabilities(job, answer.logprobs)}))
    return found[0] if len(found) == 1 else found


def _told(call: Call, params: SamplingParams) -> _Told:
    return _Told(
        fields=f.read(call.fields, "response_fields", tuple[str, ...], ()),
        tokens=f.read(call.fields, "return_tokens", bool, False),
        timings=f.read(call.fields, "timings_per_token", bool, False),
        settings=generation_settings(params, call.fields),
    )


async def _chunks(call: Call, jobs: Sequence[_Job], put: Put) -> None:
    for job in jobs:
        await with_progress(call, job.prepared).follow(call.service, _Chunks(job, put).take)


@dataclass
class _Chunks:
    """The chunks of the answers to one prompt. said: how many tokens of each were in chunks."""

    job: _Job
    put: Put
    answers: dict[int, Answer] = field(default_factory=dict)
    said: dict[int, int] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        event = step.event
        answer = self.answers.setdefault(event.index, Answer())
        answer.take(step)
        if step.text or event.logprobs or event.progress:
            self._say(step, answer)
        if event.finish_reason is not None:  # in a chunk of its own: some clients look no further
            self._put(answer, event, {"content": "", **_ending(self.job, answer)})

    def _say(self, step: Step, answer: Answer) -> None:
        event, prepared = step.event, self.job.prepared
        prompt = prepared.request.prompt
        chunk = {
            "content": step.text,
            "stop": False,
            "id_slot": prepared.slot,
            "tokens_predicted": len(answer.token_ids),
            "tokens_evaluated": 0 if isinstance(prompt, str) else len(prompt),
        }
        if event.logprobs:
            chunk.update(_probabilities(self.job, event.logprobs))
        if event.progress:
            chunk.update(prompt_progress(event.progress))
        if self.job.told.timings:
            chunk["timings"] = answer.timings_so_far()
        self._put(answer, event, chunk)

    def _put(self, answer: Answer, event: TokenEvent, chunk: dict[str, Any]) -> None:
        tokens = answer.token_ids[self.said.get(event.index, 0) :]
        self.said[event.index] = len(answer.token_ids)
        index = self.job.index + event.index
        self.put(self.job.told.selected({"index": index, "tokens": tokens, **chunk}))


def _ending(job: _Job, answer: Answer) -> dict[str, Any]:
    """What is told at the end of an answer."""
    event, usage, prepared = answer.last, answer.usage, job.prepared
    unread = min(1, usage.completion_tokens)  # the last token was never run through the model
    return {
        "index": job.index + event.index,
        "id_slot": prepared.slot,
        "stop": True,
        "model": prepared.info.name,
        "tokens_predicted": usage.completion_tokens,
        "tokens_evaluated": usage.prompt_tokens,
        "tokens_cached": usage.prompt_tokens + usage.completion_tokens - unread,
        "generation_settings": job.told.settings,
        "prompt": prepared.request.prompt if isinstance(prepared.request.prompt, str) else "",
        "has_new_line": "\n" in answer.content,
        "truncated": bool(job.cut),
        "stop_type": _stop_type(event),
        "stopping_word": event.stop or "",
        "timings": {**llama_timings(usage, answer.timings), **job.cut},
    }


def _stop_type(event: TokenEvent) -> str:
    if event.finish_reason == "stop":
        return "eos" if event.stop is None else "word"
    return _STOP_TYPES[event.finish_reason]


def _probabilities(job: _Job, logprobs: Sequence[TokenLogprob]) -> dict[str, Any]:
    if not job.prepared.request.params.logprobs:
        return {}
    return {"completion_probabilities": entries(logprobs)}


_SHARED = (
    *("model", "stream", "n_predict", "n_probs", "n_keep", *_LIMITS),
    *("response_fields", "return_tokens", "timings_per_token", "cache_prompt", "id_slot"),
    *("post_sampling_probs", *_PROGRESS, *RUN_FIELDS),
)
_INFILL = ("input_prefix", "input_suffix", "input_extra", "prompt_text", "t_max_prompt_ms")
ROUTES = (
    Route("POST", "/completion", completion, takes=("prompt", *_SHARED), samples=True),
    Route("POST", "/completions", completion, takes=("prompt", *_SHARED), samples=True),
    Route("POST", "/infill", infill, takes=(*_INFILL, *_SHARED), samples=True),
)
