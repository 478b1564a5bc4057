"""KL divergence between scripted models, against its definition over all logits at once."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from edgellm.errors import BackendError, EdgeLLMError, RequestError
from edgellm.eval.kl import _position, divergence
from edgellm.eval.perplexity import perplexity
from edgellm.llm import Model
from tests import mock_model
from tests.mock_model import VOCAB_SIZE, MockModel, make_manager, noise

TEXT = "It was a bright cold day in April, and the clocks were striking thirteen."
Logits = Callable[[list[int], int], npt.NDArray[np.float32]]


def mock(logits: Logits) -> Model:
    manager = make_manager(MockModel(logits))
    return Model(manager, manager.models()[0])


def altered(tokens: list[int], num_prompt_tokens: int) -> npt.NDArray[np.float32]:
    """The noise, less sure of itself, moved and with another favourite at every third position."""
    row = 0.8 * noise(tokens, num_prompt_tokens) + 5
    if len(tokens) % 3 == 0:
        row[65] = 30
    return row.astype(np.float32)


def by_definition(
    model: Model, against: Model, context: int
) -> tuple[list[float], list[bool], list[float]]:
    """Divergences, equal favourites and losses of the model over the second halves."""
    ids = model.tokenize(TEXT)
    divergences, equal, losses = [], [], []
    for start in range(0, len(ids) - context + 1, context):
        chunk = [mock_model.BOS, *ids[start + 1 : start + context]]
        p, q = (m.logits(chunk).astype(float) for m in (against, model))
        p, q = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) for x in (p, q))
        for i in range(context // 2, context - 1):
            divergences.append(float((p[i] * np.log(p[i] / q[i])).sum()))
            equal.append(bool(p[i].argmax() == q[i].argmax()))
            losses.append(-math.log(q[i][chunk[i + 1]]))
    return divergences, equal, losses


@pytest.mark.parametrize("context", [8, 9, 30])
def test_it_is_the_definition(context: int) -> None:
    seen: list[Any] = []
    with mock(altered) as model, mock(noise) as against:
        found = divergence(
            model, against, TEXT, context, watch=lambda *progress: seen.append(progress)
        )
        divergences, equal, losses = by_definition(model, against, context)
        own, other = (perplexity(m, TEXT, context) for m in (model, against))
    assert found.mean == pytest.approx(np.mean(divergences))
    assert found.percentile_99 == pytest.approx(np.percentile(divergences, 99))
    assert found.top_agreement == pytest.approx(np.mean(equal)) and 0 < found.top_agreement < 1
    assert found.perplexity == pytest.approx(math.exp(np.mean(losses)))
    assert found.perplexity == pytest.approx(own.perplexity)
    assert found.against_perplexity == pytest.approx(other.perplexity)
    assert (found.tokens, found.chunks, found.context) == (own.tokens, own.chunks, context)
    assert [done for done, _, _ in seen] == list(range(1, found.chunks + 1))
    assert seen[-1][1:] == (found.chunks, pytest.approx(found.mean))


def test_a_model_lies_nowhere_from_itself() -> None:
    with mock(noise) as model, mock(noise) as against:
        found = divergence(model, against, TEXT, 16, max_chunks=2)
    assert (found.mean, found.percentile_99, found.top_agreement) == (0, 0, 1)
    assert found.chunks == 2


def test_one_model_cannot_stand_on_both_sides() -> None:
    """Its one engine would wait for itself."""
    with mock(noise) as model, pytest.raises(RequestError, match="loaded twice"):
        divergence(model, model, TEXT, 16)


def test_blocks_of_rows_need_not_be_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    with mock(altered) as model, mock(noise) as against:
        wanted = divergence(model, against, TEXT, 30)
    narrow = partial(mock_model.make_engine, token_budget=2, max_num_seqs=1)
    monkeypatch.setattr(mock_model, "make_engine", narrow)
    with mock(altered) as model:
        monkeypatch.undo()
        with mock(noise) as against:
            assert divergence(model, against, TEXT, 30) == wanted


@given(st.integers(0, 2**32), st.floats(0, 40))
def test_it_is_finite_and_never_negative(seed: int, spread: float) -> None:
    random = np.random.default_rng(seed)
    ours, theirs = (random.normal(size=(2, 50)) * spread).astype(np.float32)
    found = _position(ours, theirs, 7)
    assert 0 <= found.divergence < math.inf
    assert _position(ours, ours, 7).divergence == 0


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1])
def test_logits_that_are_no_finite_numbers(broken: float, place: int) -> None:
    def logits(tokens: list[int], num_prompt_tokens: int) -> npt.NDArray[np.float32]:
        row = noise(tokens, num_prompt_tokens)
        row[5] = broken if len(tokens) == 12 else 0
        return row

    with mock(noise) as sound, mock(logits) as other:
        pair = (other, sound) if place == 0 else (sound, other)
        with pytest.raises(BackendError, match="not finite"):
            divergence(*pair, TEXT, 16)


def test_models_must_share_a_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    with mock(noise) as model, mock(noise) as against:
        with monkeypatch.context() as patch:
            patch.setattr(mock_model, "VOCAB_SIZE", VOCAB_SIZE + 1)
            with mock(noise) as larger, pytest.raises(RequestError, match="258 and 259 tokens"):
                divergence(model, larger, TEXT, 16)
        tokenizer = against._loaded.tokenizer
        encode = tokenizer.encode
        monkeypatch.setattr(
            tokenizer, "encode", lambda *a, **k: [*encode(*a, **k)[:20], 1, *encode(*a, **k)[21:]]
        )
        with pytest.raises(RequestError, match="from token 20 on"):
            divergence(model, against, TEXT, 16)
        monkeypatch.setattr(tokenizer, "encode", lambda *a, **k: encode(*a, **k)[:-1])
        with pytest.raises(RequestError, match=f"from token {len(TEXT)} on"):
            divergence(model, against, TEXT, 16)
        monkeypatch.setattr(tokenizer, "encode", encode)
        monkeypatch.setattr(tokenizer, "bos_id", 3)
        with pytest.raises(RequestError, match="257 and 3"):
            divergence(model, against, TEXT, 16)


@pytest.mark.parametrize("place", [0, 1])
def test_a_model_that_fails_ends_it_and_both_can_go_on(place: int) -> None:
    with mock(noise) as one, mock(noise) as two:
        runner: Any = (one, two)[place]._loaded.engine._runner
        runner.error = ValueError("broken")
        with pytest.raises(EdgeLLMError, match="broken"):
            divergence(one, two, TEXT, 16)
        runner.error = None
        assert divergence(one, two, TEXT, 16).mean == 0


def test_a_text_too_short() -> None:
    with mock(noise) as model, mock(noise) as against:
        with pytest.raises(RequestError, match="6 tokens"):
            divergence(model, against, "short", 16)
