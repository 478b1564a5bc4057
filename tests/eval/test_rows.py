"""Rows pulled one at a time: the same as pushed ones, and nothing is left waiting."""

import threading
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from edgellm.errors import EdgeLLMError, RequestError
from edgellm.eval.rows import rows
from edgellm.llm import Model
from tests.mock_model import LONG, MockModel, endless, make_manager, noise
from tests.waiting import wait_until

IDS = list(b"It was a bright cold day in April.")


def mock(runner: MockModel) -> Model:
    manager = make_manager(runner)
    return Model(manager, manager.models()[0])


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    yield
    wait_until(lambda: not any(t.name == "edgellm-rows" for t in threading.enumerate()))


@pytest.mark.parametrize("start", [0, 7, len(IDS) - 1])
def test_they_are_those_of_logits(start: int) -> None:
    with mock(MockModel(noise)) as model:
        pulled = [row.copy() for row in rows(model, IDS, start)]
        assert np.array_equal(np.stack(pulled), model.logits(IDS)[start:])


def test_the_model_computes_no_further_than_is_read() -> None:
    runner = MockModel(noise)
    with mock(runner) as model:
        pulled = rows(model, IDS, 0)
        next(pulled)
        assert runner.batches == [[(0, 3)]]  # three rows of logits are the most of a step
        next(pulled)
        time.sleep(0.05)
        assert len(runner.batches) == 1
        pulled.close()


def test_a_reader_that_leaves_early_frees_the_model() -> None:
    with mock(MockModel(noise)) as model:
        pulled = rows(model, IDS, 0)
        next(pulled)
        pulled.close()
        assert model.logits(IDS).shape[0] == len(IDS)


def test_a_model_that_is_closed_under_a_reader_says_so() -> None:
    runner = endless(delay=0.05)
    manager = make_manager(runner, **LONG)
    model = Model(manager, manager.models()[0])
    pulled = rows(model, [1] * 8000, 7999)

    def close() -> None:
        wait_until(lambda: runner.batches)
        model.close()

    closer = threading.Thread(target=close)
    closer.start()
    with pytest.raises(EdgeLLMError, match="aborted"):
        next(pulled)
    closer.join()


def test_errors_reach_the_reader() -> None:
    def broken(tokens: list[int], num_prompt_tokens: int) -> npt.NDArray[np.float32]:
        if len(tokens) > 10:
            raise ValueError("no more")
        return noise(tokens, num_prompt_tokens)

    with mock(MockModel(broken)) as model:
        pulled = rows(model, IDS, 0)
        with pytest.raises(EdgeLLMError, match="no more"):
            list(pulled)
        with pytest.raises(RequestError, match="position 99"):
            next(rows(model, IDS, 99))
