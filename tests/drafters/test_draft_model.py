"""A small model that guesses for a large one: what it says, what it keeps, what it refuses."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm import Model, SamplingParams, load
from edgellm.drafters import DraftModel
from edgellm.engine import Engine
from edgellm.errors import RequestError
from edgellm.sequence import Sequence
from tests.drafters.scripted import speculating
from tests.drafters.test_bits import said
from tests.gguf_writer import Tensor
from tests.mock_model import ByteTokenizer, MockModel, generation, make_engine, noise
from tests.models.recipes.parts import VOCAB
from tests.models.tiny import write_tiny
from tests.test_engine import finish

PROMPT = np.random.default_rng(5).integers(0, VOCAB, size=30).tolist()
VOCABULARY = ByteTokenizer()
PARAMS = SamplingParams(temperature=0, max_tokens=20)


def shifted(tokens: list[int], num_prompt_tokens: int) -> Any:
    """A model that never agrees with `noise`."""
    return np.roll(noise(tokens, num_prompt_tokens), 1)


def drafting(
    logits: Callable[[list[int], int], Any], vocab_size: int = 258
) -> tuple[Engine, MockModel, DraftModel]:
    """An engine of `noise` for which a model of these logits guesses."""
    small = MockModel(logits)
    drafter = DraftModel(make_engine(small), VOCABULARY, vocab_size, lambda: None, lambda: 0.0)
    return speculating(MockModel(noise), drafter, token_budget=40), small, drafter


def tokens_of(engine: Engine, prompt: bytes = b"once upon a time") -> list[int]:
    made, _ = generation(prompt, PARAMS)
    engine.add(made)
    finish(engine)
    return made.sequence.token_ids


def test_a_model_that_agrees_saves_most_steps() -> None:
    engine, _, _ = drafting(noise)
    assert tokens_of(engine) == tokens_of(make_engine(MockModel(noise)))
    assert engine.stats().steps < 10


def test_a_model_that_never_agrees_is_asked_ever_less() -> None:
    engine, _, drafter = drafting(shifted)
    assert tokens_of(engine) == tokens_of(make_engine(MockModel(noise)))
    sequence = Sequence([1], 1, PARAMS)
    before = drafter.chances(sequence, 1)[0]
    for _ in range(20):
        drafter.draft({sequence: 4})
        sequence.token_ids.append(0)
        after = drafter.chances(sequence, 1)[0]
    assert after < 0.4 < before
    for _ in range(600):  # later it may be worth another try
        later = drafter.chances(sequence, 1)[0]
    assert later > 0.6


def test_a_model_that_agrees_is_asked_ever_more() -> None:
    _, _, drafter = drafting(noise)
    sequence = Sequence([1], 1, PARAMS)
    before = drafter.chances(sequence, 1)[0]
    for _ in range(20):
        sequence.token_ids += drafter.draft({sequence: 4})[sequence][:2]
        after = drafter.chances(sequence, 1)[0]
    assert after > 0.9 > before


def test_what_it_has_read_is_not_computed_again() -> None:
    engine, small, _ = drafting(noise)
    tokens_of(engine, b"p" * 30)
    first, *others = (sum(n for _, n in batch) for batch in small.batches)
    assert sum([first, *others]) < 30 + 2 * 20 + 8


def test_a_long_text_is_read_in_pieces() -> None:
    small = MockModel(noise)
    engine = make_engine(small, context_length=400, num_blocks=400, token_budget=500)
    drafter = DraftModel(engine, VOCABULARY, 258, lambda: None)
    sequence = Sequence(list(range(200)), 200, PARAMS)
    drafter.chances(sequence, 4)
    drafts = [drafter.draft({sequence: 4}) for _ in range(4)]
    assert [list(map(len, one.values())) for one in drafts] == [[], [], [], [4]]
    assert max(n for batch in small.batches for _, n in batch) <= 64


def test_what_guesses_cost_does_not_count_the_reading_before() -> None:
    now = [0.0]

    def slow(tokens: list[int], num_prompt_tokens: int) -> Any:
        now[0] += 1.0
        return noise(tokens, num_prompt_tokens)

    engine = make_engine(MockModel(slow), context_length=400, num_blocks=400, token_budget=500)
    drafter = DraftModel(engine, VOCABULARY, 258, lambda: None, lambda: now[0])
    sequence = Sequence(list(range(100)), 100, PARAMS)
    drafter.chances(sequence, 4)
    assert drafter.draft({sequence: 4}) == drafter.draft({sequence: 4}) == {}
    assert now[0] == 2.0 and drafter.seconds(1) == 0.0
    for expected in (0.0, 3.0):  # the first time meets cold memory
        assert len(drafter.draft({sequence: 4})[sequence]) == 4
        sequence.token_ids.append(7)
        assert drafter.seconds(3) == expected
    for _ in range(300):
        drafter.draft({})
    assert drafter.seconds(3) == 0.0  # worth another try


def test_tokens_that_the_large_model_lacks_are_not_guessed() -> None:
    engine, _, _ = drafting(noise, vocab_size=1)
    assert tokens_of(engine) == tokens_of(make_engine(MockModel(noise)))


def test_a_text_beyond_the_draft_models_context_has_no_guesses() -> None:
    small = make_engine(MockModel(noise), context_length=16)
    engine = speculating(
        MockModel(noise),
        DraftModel(small, VOCABULARY, 258, lambda: None, lambda: 0.0),
        token_budget=40,
    )
    assert tokens_of(engine) == tokens_of(make_engine(MockModel(noise)))


def test_closing_the_engine_closes_the_draft_model() -> None:
    small, released = MockModel(noise), []
    drafter = DraftModel(make_engine(small), VOCABULARY, 258, lambda: released.append(True))
    speculating(MockModel(noise), drafter).close()
    assert small.is_closed and released == [True]


# ---- files


def write(folder: Path, name: str, kind: str = "no_vocab") -> Path:
    """A tiny model without texts: ids alone."""

    def edit(keys: dict[str, Any], _: list[Tensor]) -> None:
        keys.update({"tokenizer.ggml.model": kind, f"{name}.vocab_size": VOCAB})

    folder.mkdir()
    return write_tiny(folder, name, edit)


@pytest.fixture(params=["llama", "mamba2"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    return str(write(tmp_path / "tiny", request.param))


@pytest.fixture
def speculative(path: str) -> Iterator[Model]:
    """A tiny model that is its own draft model, with a clock that ticks once per step."""
    with load(path, draft=path, threads=2) as model:
        engine, ticks = model._manager.model().engine, count()
        engine._clock = lambda: float(next(ticks))
        for drafter in engine._guessing._speculator._drafters:  # type: ignore[union-attr]
            drafter._clock = lambda: 0.0
        yield model


@pytest.mark.parametrize("temperature", [0.0, 1.2])
def test_a_draft_model_changes_no_bit(path: str, speculative: Model, temperature: float) -> None:
    params = SamplingParams(temperature=temperature, seed=2, max_tokens=30, logprobs=5, n=2)
    done = speculative.complete(PROMPT, params)
    with load(path, threads=2) as plain:
        assert said(done) == said(plain.complete(PROMPT, params))
    assert done.usage.accepted_tokens == done.usage.drafted_tokens > 15  # it draws the same


def test_a_model_with_other_tokens_is_refused(tmp_path: Path) -> None:
    path = str(write(tmp_path / "large", "llama"))
    other = write(tmp_path / "small", "llama", kind="none")
    with pytest.raises(RequestError, match="tokens differ: 'no_vocab' .* 'none'"):
        load(path, draft=str(other))
