"""Recurrent states through the whole engine: found again, extended, forked, with the same bits."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgellm import Model, SamplingParams, load
from edgellm.kernels.kv import BLOCK_SIZE
from tests.models.recipes.parts import VOCAB
from tests.models.tiny import write_tiny

PROMPT = np.random.default_rng(5).integers(0, VOCAB, size=70).tolist()
NAMES = ["mamba2", "jamba", "qwen35"]


@pytest.fixture(params=NAMES)
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A tiny model without a vocabulary: it takes and gives ids."""
    name = request.param
    return write_tiny(
        tmp_path,
        name,
        lambda keys, _: keys.update(
            {"tokenizer.ggml.model": "no_vocab", f"{name}.vocab_size": VOCAB}
        ),
    )


@pytest.fixture
def model(path: Path) -> Iterator[Model]:
    with load(str(path), threads=2) as loaded:
        yield loaded


def answer(model: Model, ids: list[int], count: int = 12, n: int = 1) -> list[int]:
    params = SamplingParams(temperature=0, max_tokens=count, n=n, seed=1)
    return list(model.complete(ids, params).token_ids)


def fresh(path: Path, ids: list[int], count: int = 12) -> list[int]:
    """The answer of a model that has seen nothing before."""
    with load(str(path), threads=2) as alone:
        return answer(alone, ids, count)


def test_a_prompt_that_returns_or_goes_on_is_found(path: Path, model: Model) -> None:
    first = answer(model, PROMPT)
    assert first == fresh(path, PROMPT)
    again = model.complete(PROMPT, SamplingParams(temperature=0, max_tokens=12))
    assert list(again.token_ids) == first
    assert again.usage.cached_tokens >= len(PROMPT) - 1
    longer = [*PROMPT, *first, 7, 8, 9]
    extended = model.complete(longer, SamplingParams(temperature=0, max_tokens=12))
    assert extended.usage.cached_tokens >= len(PROMPT) + len(first) - 1
    assert list(extended.token_ids) == fresh(path, longer)


def test_a_prompt_that_parts_from_another_does_not_take_its_state(path: Path, model: Model) -> None:
    answer(model, PROMPT)
    other = [*PROMPT[:50], *PROMPT[:20]]
    assert answer(model, other) == fresh(path, other)
    assert answer(model, PROMPT[:40]) == fresh(path, PROMPT[:40])


def test_the_third_prompt_with_a_beginning_finds_its_state(path: Path, model: Model) -> None:
    """The second one showed where prompts part, and left its state there."""
    prompts = [[*PROMPT, *ending] for ending in ([1, 2, 3], [4, 5, 6, 7], [8, 9])]
    cached = []
    for prompt in prompts:
        got = model.complete(prompt, SamplingParams(temperature=0, max_tokens=5))
        assert list(got.token_ids) == fresh(path, prompt, 5)
        cached.append(got.usage.cached_tokens)
    assert cached == [0, 0, len(PROMPT) // BLOCK_SIZE * BLOCK_SIZE]


def test_several_answers_begin_with_one_state(path: Path, model: Model) -> None:
    """Computed once and forked, then found in the cache: each is what it would be alone."""
    forked, found = answers(model, PROMPT, 3), answers(model, PROMPT, 3)
    assert forked == found and len(set(forked)) > 1
    with load(str(path), threads=2, max_num_seqs=1) as one_by_one:
        assert answers(one_by_one, PROMPT, 3) == forked


def answers(model: Model, ids: list[int], n: int) -> list[tuple[int, ...]]:
    """The tokens of n sampled answers."""
    params = SamplingParams(temperature=1.0, max_tokens=10, n=n, seed=3)
    tokens: list[list[int]] = [[] for _ in range(n)]
    for event in model.stream(ids, params):
        tokens[event.index] += event.token_ids
    return [tuple(ids) for ids in tokens]


def test_scores_do_not_depend_on_what_is_cached(path: Path, model: Model) -> None:
    want = model.logits(PROMPT)
    answer(model, PROMPT[:33])
    answer(model, PROMPT)
    np.testing.assert_array_equal(model.logits(PROMPT).view(np.uint32), want.view(np.uint32))
