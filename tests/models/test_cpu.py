"""Every architecture row on the CPU: the same bits however a prompt is run, near the reference."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgellm.config import cache_dir
from edgellm.kernels.cpu import CpuBackend
from edgellm.models import ARCHITECTURES
from tests.models.recipes.parts import VOCAB
from tests.models.running import Logits, Runner, logits_of
from tests.models.tiny import write_tiny

IDS = np.random.default_rng(4).integers(0, VOCAB, size=40).tolist()
OTHER = IDS[::-1]


@pytest.fixture(scope="module")
def backend() -> Iterator[CpuBackend]:
    made = CpuBackend(cache_dir(), 2)
    yield made
    made.close()


def assert_same_bits(got: Logits, want: Logits) -> None:
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_way_to_run_a_prompt(tmp_path: Path, backend: CpuBackend, name: str) -> None:
    """At once, token by token, and in ragged company."""
    path = write_tiny(tmp_path, name)
    whole, other = (logits_of(path, ids, backend.load) for ids in (IDS, OTHER))
    runner = Runner(path, capacity=1, load=backend.load)
    sequence = runner.sequence(IDS)
    assert_same_bits(np.concatenate([runner.step((sequence, 1)) for _ in IDS]), whole)
    runner = Runner(path, load=backend.load)
    first, second = runner.sequence(IDS), runner.sequence(OTHER)
    both = [runner.step((first, 33), (second, 3)), runner.step((second, 30), (first, 7))]
    assert_same_bits(np.concatenate([both[0][:33], both[1][30:]]), whole)
    assert_same_bits(np.concatenate([both[0][33:], both[1][:30]]), other[:33])


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_float_weights_give_what_numpy_gives(
    tmp_path: Path, backend: CpuBackend, name: str
) -> None:
    """Without int8 activations what is left is the order of sums, and GELU's table of halves."""
    path = write_tiny(tmp_path, name, format_name="F32")
    got, want = logits_of(path, IDS, backend.load), logits_of(path, IDS)
    assert ((got - want) ** 2).mean() <= 1e-6 * (want**2).mean()
