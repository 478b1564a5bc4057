"""Models whose experts do not all fit into memory."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import edgellm
from edgellm.cold_experts import ColdExperts, expert_bytes, expert_names
from edgellm.errors import BackendError
from edgellm.gguf_loader import GGUFFile, open_gguf
from tests.models.recipes.parts import LAYERS
from tests.models.tiny import write_tiny
from tests.test_adapter_files import VOCABULARY


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_tiny(tmp_path, "qwen3moe", lambda keys, _: keys.update(VOCABULARY))


@pytest.fixture
def file(path: Path) -> Iterator[GGUFFile]:
    with open_gguf(path) as file:
        yield file


def test_only_experts_may_be_left_on_disk(file: GGUFFile) -> None:
    assert len(expert_names(file)) == 3 * LAYERS
    sizes = expert_bytes(file, count=3, used=2)
    assert sizes.total == sum(tensor.nbytes for tensor in file.tensors.values())
    assert sizes.active == sizes.experts * 2 // 3 > 0
    assert sizes.least == sizes.total - sizes.experts + sizes.active
    assert expert_bytes(file, 0, 0).least == sizes.total


def test_pages_are_given_back_in_turn_until_enough_are(
    file: GGUFFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []
    resident = 100
    cold = ColdExperts(file, limit=80, resident=lambda: resident - 6 * len(given))
    monkeypatch.setattr(file, "give_back", given.append)
    cold.trim()
    names = expert_names(file)
    assert given == names[:5]  # 100 to 70, seven eighths of 80
    resident = 90 + 6 * len(given)
    cold.trim()
    assert given == names[:9]
    resident = 80 + 6 * len(given)
    cold.trim()
    assert len(given) == 9


def test_a_limit_below_all_experts_changes_nothing_but_memory(path: Path, file: GGUFFile) -> None:
    sizes = expert_bytes(file, 3, 2)
    ids = list(range(1, 30))
    with edgellm.load(path, backend="cpu", context_length=32, max_num_seqs=1) as model:
        want = model.logits(ids)
    limit = sizes.total - 1
    with edgellm.load(
        path, backend="cpu", context_length=32, max_num_seqs=1, memory_limit=limit
    ) as model:
        np.testing.assert_array_equal(model.logits(ids), want)
        np.testing.assert_array_equal(model.logits(ids[:1]), want[:1])


def test_what_every_token_needs_must_fit(path: Path, file: GGUFFile) -> None:
    sizes = expert_bytes(file, 3, 2)
    with pytest.raises(BackendError, match="the weights take"):
        edgellm.load(path, backend="cpu", memory_limit=sizes.least)


def test_advice_leaves_the_bytes_as_they_are(file: GGUFFile) -> None:
    for name in file.tensors:
        before = file.data(name).copy()
        file.read_exactly(name)
        file.give_back(name)
        np.testing.assert_array_equal(file.data(name), before)
    keys = {key: file.entry(key) for key in file.metadata}
    file.give_back_metadata()
    assert keys == {key: file.entry(key) for key in file.metadata}
