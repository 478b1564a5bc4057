"""Every architecture row on the cpu backend: the right logits, with the same bits in any batch."""

from collections.abc import Iterator

import numpy as np
import pytest

from edgellm.config import cache_dir
from edgellm.kernels.cpu import CpuBackend
from edgellm.kernels.reference import activation
from edgellm.models import ARCHITECTURES
from tests.models.conftest import TinyFile
from tests.models.recipes.parts import VOCAB
from tests.models.running import Logits, Runner, logits_of

LENGTH = 50
IDS = np.random.default_rng(4).integers(0, VOCAB, size=LENGTH).tolist()
OTHERS = IDS[::-1]

every_row = pytest.mark.parametrize("name", [n for n, row in ARCHITECTURES.items() if row.causal])


@pytest.fixture(scope="module")
def backend() -> Iterator[CpuBackend]:
    backend = CpuBackend(cache_dir(), 2)
    yield backend
    backend.close()


def assert_same_bits(got: Logits, want: Logits) -> None:
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


@every_row
def test_bits_are_those_of_the_prompt_at_once(
    tiny_file: TinyFile, backend: CpuBackend, name: str
) -> None:
    """Token by token, then in chunks beside another sequence, which is as if it were alone."""
    path = tiny_file(name)
    runner = Runner(path, capacity=4, load=backend.load)
    whole = runner.step((runner.sequence(IDS), LENGTH))
    assert np.isfinite(whole).all()
    single = runner.sequence(IDS)
    assert_same_bits(np.concatenate([runner.step((single, 1)) for _ in IDS]), whole)
    first, second = runner.sequence(IDS), runner.sequence(OTHERS)
    mixed = [runner.step((first, 33), (second, 3)), runner.step((second, 20), (first, 17))]
    assert_same_bits(np.concatenate([mixed[0][:33], mixed[1][20:]]), whole)
    alone = logits_of(path, OTHERS[:23], backend.load)
    assert_same_bits(np.concatenate([mixed[0][33:], mixed[1][:20]]), alone)


@every_row
def test_logits_are_those_of_the_reference(
    tiny_file: TinyFile, backend: CpuBackend, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """With float weights only the order of sums differs, once GELU is not rounded to halves."""
    monkeypatch.setattr(activation, "_half", lambda x: x)
    path = tiny_file(name, "F32")
    got, want = logits_of(path, IDS, backend.load), logits_of(path, IDS)
    assert ((got - want) ** 2).mean() <= 1e-9 * (want**2).mean()
