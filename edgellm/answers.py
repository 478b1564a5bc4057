"""A request made ready to run: the consumers of its logits. Knows nothing of threads.

Runs in the caller's thread, where what takes long may take long.
"""

from functools import partial

from edgellm.beam_search import Beam, BeamSearch
from edgellm.constraints import compile_constraint
from edgellm.detokenize import Detokenizer
from edgellm.generation import Consumer, Emit, Generation
from edgellm.loaded_model import LoadedModel
from edgellm.sampling import LoopDetector, Sampler, token_biases
from edgellm.sequence import Sequence


def consumers(
    model: LoadedModel,
    prompt: Sequence,
    *,
    request_id: str,
    emit: Emit,
    seed: int,
    max_tokens: int,
    skip_special: bool,
    shown: tuple[int, ...] = (),
) -> tuple[Consumer, ...]:
    """What the engine is given for a prompt and its parameters: the first answer, and those that
    follow its prompt. RequestError for a parameter that this model cannot hold to.

    max_tokens: the most of one answer, the context's end included. skip_special, shown: as in
    Request.
    """
    params, tokenizer = prompt.params, model.tokenizer
    encode = partial(tokenizer.encode, add_special=False)
    biases = token_biases(params.logit_bias, encode, model.info.vocab_size)
    constraint = compile_constraint(params, lambda: model.words)
    detokenizer = Detokenizer(tokenizer, params.stop, skip_special, True, shown)
    if params.beam_width > 1:
        search = BeamSearch(
            request_id=request_id,
            prompt=prompt,
            root=Beam(detokenizer, constraint),
            tokenizer=tokenizer,
            sampler=Sampler(params, tokenizer, seed=seed, biases=biases),
            emit=emit,
            add=model.engine.add,
            max_tokens=max_tokens,
        )
        return (search.start(),)
    return tuple(
        Generation(
            request_id=request_id,
            sequence=prompt.sibling(list(prompt.token_ids), index),
            tokenizer=tokenizer,
            detokenizer=detokenizer.fork(),
            emit=emit,
            sampler=Sampler(params, tokenizer, seed=seed, sample_index=index, biases=biases),
            max_tokens=max_tokens,
            constraint=constraint and constraint.fork(),
            loops=None if params.loop_detection == "off" else LoopDetector(),
        )
        for index in range(params.n)
    )
