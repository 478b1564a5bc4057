"""Guesses on real programs: the same tokens and the same bits of every log-probability."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from edgellm import Model, SamplingParams, load
from edgellm.drafters import Drafter, PromptLookup, Speculation
from edgellm.guessing import Guessing
from edgellm.types import Completion
from tests.drafters.scripted import Scripted
from tests.models.recipes.parts import VOCAB
from tests.models.tiny import write_tiny

PROMPT = np.random.default_rng(5).integers(0, VOCAB, size=40).tolist()
NAMES = ["llama", "gemma3", "mamba2", "jamba", "qwen35"]  # windows and recurrent states, too


@pytest.fixture(scope="module", params=NAMES)
def path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A tiny model without a vocabulary: it takes and gives ids."""
    name = request.param
    keys_of_vocab = {"tokenizer.ggml.model": "no_vocab", f"{name}.vocab_size": VOCAB}
    folder = tmp_path_factory.mktemp(name)
    return write_tiny(folder, name, lambda keys, _: keys.update(keys_of_vocab))


@pytest.fixture
def model(path: Path) -> Iterator[Model]:
    with load(str(path), threads=2) as loaded:
        yield loaded


def speculate(model: Model, drafter: Drafter) -> None:
    """Has the model's engine take guesses of this drafter, however long steps take."""
    loaded = model._manager.model()
    has_states = loaded.engine._scheduler.tables.states is not None
    engine = loaded.engine
    speculation = Speculation((drafter,), engine._scheduler.limits, has_states)
    engine._guessing = Guessing(speculation)
    ticks = count()
    engine._clock = lambda: float(next(ticks))


def said(done: Completion) -> list[object]:
    everyone = [done, *done.others]
    return [(one.token_ids, one.logprobs, one.finish_reason) for one in everyone]


@pytest.mark.parametrize("temperature", [0.0, 1.3])
def test_guesses_change_no_bit(path: Path, model: Model, temperature: float) -> None:
    params = SamplingParams(temperature=temperature, seed=4, max_tokens=45, logprobs=5, n=3)
    speculate(model, Scripted(lambda tokens: []))
    plain = model.complete(PROMPT, params)
    texts = [[*PROMPT, *one.token_ids] for one in (plain, *plain.others)]

    def guess(tokens: list[int]) -> list[int]:
        """What comes, with a wrong one now and then."""
        (text,) = {tuple(t) for t in texts if t[: len(tokens)] == tokens and len(t) > len(tokens)}
        return [t if i % 7 else (t + 1) % VOCAB for i, t in enumerate(text)][len(tokens) :]

    with load(str(path), threads=2) as other:
        speculate(other, Scripted(guess))
        done = other.complete(PROMPT, params)
    assert said(done) == said(plain)
    assert 0 < done.usage.accepted_tokens < done.usage.drafted_tokens


def test_lookup_changes_no_bit(path: Path, model: Model) -> None:
    prompt = PROMPT * 2
    off = SamplingParams(temperature=0.5, seed=4, max_tokens=40, logprobs=5, speculation="off")
    auto = SamplingParams(temperature=0.5, seed=4, max_tokens=40, logprobs=5)
    speculate(model, PromptLookup())
    assert said(model.complete(prompt, auto)) == said(model.complete(prompt, off))
