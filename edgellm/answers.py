"""A request made ready to run: the consumers of its logits. Knows nothing of threads.

Runs in the caller's thread, where what takes long may take long.
"""

import os
from collections.abc import Callable, Sequence as Seq
from functools import partial
from operator import index

from edgellm.adapter_files import checked_scale
from edgellm.beam_search import Beam, BeamSearch
from edgellm.constraints import Constraint
from edgellm.consumer import Consumer
from edgellm.detokenize import Detokenizer
from edgellm.errors import ContextOverflow, RequestError
from edgellm.generation import Emit, Generation, Scoring, TakeRows
from edgellm.loaded_model import LoadedModel
from edgellm.sampling import LoopDetector, Sampler, token_biases
from edgellm.sampling_params import constraints_of, resolve
from edgellm.sequence import Sequence
from edgellm.types import ModelInfo, Request, SamplingParams


def consumers(
    model: LoadedModel, request: Request, request_id: str, emit: Emit
) -> tuple[Consumer, ...]:
    """What the engine is given for a request: its first answer, and those that follow its prompt.

    RequestError for what this model cannot do or hold to, ContextOverflow for a long prompt.
    """
    prompt, tokenizer = _prompt(_generating(model), request), model.tokenizer
    params, room = prompt.params, model.info.context_length - prompt.num_prompt_tokens
    max_tokens = room if params.max_tokens is None else min(room, params.max_tokens)
    detokenizer = Detokenizer(tokenizer, params.stop, request.skip_special, True, request.shown)
    encode = partial(tokenizer.encode, add_special=False)
    biases = token_biases(params.logit_bias, encode, model.info.vocab_size)
    constraint = _constraint(model, params)
    if params.beam_width > 1:
        search = BeamSearch(
            request_id=request_id,
            prompt=prompt,
            root=Beam(detokenizer, constraint),
            tokenizer=tokenizer,
            sampler=Sampler(params, tokenizer, seed=prompt.seed, biases=biases),
            emit=emit,
            add=model.engine.add,
            max_tokens=max_tokens,
        )
        return (search.start(),)
    answers = []
    for number in range(params.n):
        sampler = Sampler(
            params,
            tokenizer,
            seed=prompt.seed,
            sample_index=number,
            biases=biases,
            find=model.find,
        )
        sequence = prompt.sibling(list(prompt.token_ids), number)
        if constraint is None and params.logprobs is None:
            sequence.num_best = sampler.num_best
        answers.append(
            Generation(
                request_id=request_id,
                sequence=sequence,
                tokenizer=tokenizer,
                detokenizer=detokenizer.fork(),
                emit=emit,
                sampler=sampler,
                max_tokens=max_tokens,
                constraint=constraint and constraint.fork(),
                loops=None if params.loop_detection == "off" else LoopDetector(),
                tells_progress=request.tells_progress and number == 0,
            )
        )
    return tuple(answers)


def scoring(
    model: LoadedModel,
    ids: Seq[int],
    start: int,
    request_id: str,
    take_rows: TakeRows,
    done: Callable[[Exception | None], None],
) -> Scoring:
    """What takes the logits from position `start` on. RequestError for what has none there."""
    token_ids = checked_ids(ids, _generating(model).info.vocab_size)
    if not 0 <= start < max(1, len(ids)):
        raise RequestError(f"logits from position {start} of {len(ids)} tokens", "start")
    sequence = Sequence(
        token_ids,
        len(token_ids),
        SamplingParams(),
        score_from=start,
        adapter_scales=model.info.adapter_scales,
    )
    return Scoring(request_id, sequence, take_rows, done)


def checked_ids(ids: Seq[int], vocab_size: int) -> list[int]:
    """The ids, of whatever kind of integer. RequestError names one that is no token."""
    try:
        checked = [index(token) for token in ids]
    except TypeError:
        raise RequestError(
            "token ids are whole numbers, and some are something else", "prompt"
        ) from None
    for place in (min(checked, default=0), max(checked, default=0)):
        if not 0 <= place < vocab_size:
            raise RequestError(
                f"token id {place} is outside the vocabulary of {vocab_size}", "prompt"
            )
    return checked


def _prompt(model: LoadedModel, request: Request) -> Sequence:
    """The prompt as a sequence of its own, of which answers are siblings."""
    ids, context = _prompt_ids(model, request), model.info.context_length
    if len(ids) >= context:  # also said by the scheduler, but here before any thread
        raise ContextOverflow(len(ids), context)
    most = model.engine.most_kept_tokens
    if request.keep_prompt and len(ids) > most:
        raise RequestError(
            f"the prompt has {len(ids)} tokens: this cache can keep {most}; keep fewer, or load "
            "the model with more memory or fewer tokens of context",
            "keep_prompt",
        )
    params = resolve(request.params, model.info.sampling)
    return Sequence(
        ids,
        len(ids),
        params,
        seed=int.from_bytes(os.urandom(8)) if params.seed is None else params.seed,
        keeps_prompt=request.keep_prompt,
        is_background=_is_background(request),
        adapter_scales=_adapter_scales(request, model.info),
    )


def _constraint(model: LoadedModel, params: SamplingParams) -> Constraint | None:
    if not constraints_of(params):
        return None
    from edgellm.constraints import compile_constraint  # with all that reads grammars

    return compile_constraint(params, lambda: model.words)


def _generating(model: LoadedModel) -> LoadedModel:
    if not model.info.generates:
        raise RequestError(
            f"{model.info.name} makes embeddings and no text: ask it for those, or another model",
            "prompt",
        )
    return model


def _is_background(request: Request) -> bool:
    if request.priority not in ("interactive", "background"):
        raise RequestError(
            f"priority is {request.priority!r}: interactive or background is expected", "priority"
        )
    return request.priority == "background"


def _prompt_ids(model: LoadedModel, request: Request) -> list[int]:
    if isinstance(request.prompt, str):
        model.refuse_long(request.prompt)
        return model.tokenizer.encode(
            request.prompt, add_special=request.add_special, parse_special=request.parse_special
        )
    return checked_ids(request.prompt, model.info.vocab_size)


def _adapter_scales(request: Request, info: ModelInfo) -> tuple[float, ...]:
    """One for each adapter of the model. RequestError names one that it does not have."""
    if request.adapters is None:
        return info.adapter_scales
    known = [adapter.name for adapter in info.adapters]
    for name, scale in request.adapters.items():
        checked_scale(name, scale)
        if name not in known:
            has = ", ".join(known) or "none"
            raise RequestError(f"{info.name} has no adapter {name!r}; it has: {has}", "adapters")
    return tuple(float(request.adapters.get(name, 0.0)) for name in known)
