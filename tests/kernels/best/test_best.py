"""The compiled search for the best logits against a plain ranking."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from edgellm.config import cache_dir
from edgellm.kernels.best import BestLogits
from edgellm.kernels.cpu.layout import BEST_GROUP as GROUP
from edgellm.kernels.draw import MOST_SOUGHT
from tests.sampling.rows import LOGITS, LONG, ranking


@pytest.fixture(scope="module")
def best() -> BestLogits:
    return BestLogits(cache_dir())


@settings(max_examples=150, deadline=None)
@given(logits=LOGITS | LONG, count=st.integers(1, MOST_SOUGHT))
def test_the_best_are_the_first_of_the_ranking(
    best: BestLogits, logits: np.ndarray, count: int
) -> None:
    found = best(logits, count)
    if not np.isfinite(logits).all():
        assert found is None
        return
    assert found is not None
    values, ids = found
    assert ids == ranking(logits)[:count]
    assert values == [logits[i] for i in ids]


@pytest.mark.parametrize("size", [1, GROUP - 1, GROUP, GROUP + 1, 40 * GROUP, 262_144])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_logits_that_are_no_numbers_are_seen_anywhere(
    best: BestLogits, size: int, bad: float
) -> None:
    for place in {0, size // 2, size - 1}:
        logits = np.zeros(size, np.float32)
        assert best(logits, 1) == ([0.0], [0])
        logits[place] = bad
        assert best(logits, 1) is None


def test_only_floats_side_by_side_are_read(best: BestLogits) -> None:
    logits = np.arange(600, dtype=np.float32)
    assert best(logits[100:500], 2) == ([499.0, 498.0], [399, 398])
    assert best(logits[::2], 2) is None
    assert best(logits[::-1], 2) is None
    assert best(logits.astype(np.float64), 2) is None  # type: ignore[arg-type]


def test_a_stored_kernel_is_read_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("kernels")
    root.chmod(0o700)
    logits = np.arange(100, dtype=np.float32)
    for _ in range(2):
        assert BestLogits(root)(logits, 1) == ([99.0], [99])
    assert len(list(root.rglob("edgellm_best.code"))) == 1
