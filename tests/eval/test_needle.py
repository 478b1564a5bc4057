"""Needles: where they lie, that the text is alike for all, and what counts as found."""

import numpy as np
import pytest

from edgellm.errors import RequestError
from edgellm.eval.needle import DEPTHS, haystack, needles
from edgellm.llm import Model
from tests.mock_model import EOG, VOCAB_SIZE, MockModel, make_manager, noise

NEEDLE = "The secret number of Oslo is 1234."


def mock(runner: MockModel) -> Model:
    manager = make_manager(runner, context_length=512, num_blocks=256)
    return Model(manager, manager.models()[0])


def reads(tokens: list[int], num_prompt_tokens: int) -> np.ndarray:
    """Answers with the last number in the prompt, as one who reads would."""
    prompt = bytes(t for t in tokens[:num_prompt_tokens] if t < 256).decode()
    number = next(word for word in prompt.split("is ")[1:] if word[:1].isdigit()).split(".")[0]
    answer = [*f" {number}".encode(), EOG]
    row = np.zeros(VOCAB_SIZE, np.float32)
    row[answer[min(len(tokens) - num_prompt_tokens, len(answer) - 1)]] = 9
    return row


def test_where_the_needle_lies() -> None:
    with mock(MockModel(noise)) as model:
        for depth in DEPTHS:
            text = haystack(model, 400, depth, NEEDLE)
            assert 300 < len(model.tokenize(text)) <= 400 and text.count(NEEDLE) == 1
            assert text == haystack(model, 400, depth, NEEDLE)
            before = text.index(NEEDLE) / (len(text) - len(NEEDLE))
            assert abs(before - depth) < 0.15
        sentences = haystack(model, 250, 1.0, NEEDLE).split(". ")
        assert len(set(sentences)) == len(sentences)


def test_a_reader_finds_all_and_noise_none() -> None:
    with mock(MockModel(reads)) as model:
        length = model.info.context_length
        score = needles(model, (length // 2, length), (0.0, 1.0))
    assert score.share == 1
    assert [(t.tokens, t.depth) for t in score.tries] == [
        *((length // 2, 0.0), (length // 2, 1.0)),
        *((length, 0.0), (length, 1.0)),
    ]
    with mock(MockModel(noise)) as model:
        assert needles(model, (300,)).share == 0


@pytest.mark.parametrize("length", [10, 1 << 20])
def test_lengths_that_cannot_be(length: int) -> None:
    with mock(MockModel(noise)) as model, pytest.raises(RequestError, match="the model's context"):
        needles(model, (length,))
