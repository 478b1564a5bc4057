"""Pooling: what becomes of rows, in whatever pieces they come, and of a classifier's row."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from edgellm.errors import GGUFError
from edgellm.gguf_loader import open_gguf
from edgellm.kernels.formats import by_name
from edgellm.models import PooledHead, read_config, read_pooled_head
from edgellm.pooling import Pooler, Rows
from edgellm.sequence import Sequence
from edgellm.types import Pooling, SamplingParams
from tests.gguf_writer import Tensor
from tests.models.recipes.parts import HIDDEN
from tests.models.tiny import write_tiny

LENGTH, WIDTH = 9, 5
ROWS = np.random.default_rng(1).normal(size=(LENGTH, WIDTH)).astype(np.float32)


def pooled(pooling: Pooling, cuts: list[int], head: PooledHead | None = None) -> Rows:
    """What a pooler makes of ROWS that come in these pieces."""
    results: list[Rows | Exception] = []
    sequence = Sequence([1] * LENGTH, LENGTH, SamplingParams(), score_from=0, wants_hidden=True)
    pooler = Pooler("id", sequence, pooling, head or PooledHead(), results.append)
    bounds = [0, *sorted(cuts), LENGTH]
    for start, end in zip(bounds, bounds[1:], strict=False):
        sequence.num_computed_tokens = end
        assert pooler.take(ROWS[start:end]) == (end == LENGTH)
    (result,) = results
    assert isinstance(result, np.ndarray) and result.dtype == np.float32
    return result


def unit(row: np.ndarray) -> np.ndarray:
    return row / np.linalg.norm(row.astype(np.float64))


def test_each_kind() -> None:
    np.testing.assert_allclose(pooled("mean", []), [unit(ROWS.mean(axis=0))], rtol=1e-6)
    np.testing.assert_allclose(pooled("cls", []), [unit(ROWS[0])], rtol=1e-6)
    np.testing.assert_allclose(pooled("last", []), [unit(ROWS[-1])], rtol=1e-6)
    np.testing.assert_array_equal(pooled("none", []), ROWS)


@given(
    cuts=st.sets(st.integers(1, LENGTH - 1)), kind=st.sampled_from(["none", "mean", "cls", "last"])
)
def test_pieces_make_no_difference(cuts: set[int], kind: Pooling) -> None:
    np.testing.assert_array_equal(pooled(kind, list(cuts)), pooled(kind, []))


def test_rows_that_come_again_count_once() -> None:
    """As after a preemption, when part of a sequence is computed a second time."""
    results: list[Rows | Exception] = []
    sequence = Sequence([1] * LENGTH, LENGTH, SamplingParams(), score_from=0, wants_hidden=True)
    pooler = Pooler("id", sequence, "mean", PooledHead(), results.append)
    for start, end in ((0, 5), (2, 7), (0, LENGTH)):
        sequence.num_computed_tokens = end
        pooler.take(ROWS[start:end])
    np.testing.assert_array_equal(results[0], pooled("mean", []))


def test_zeros_stay_zeros() -> None:
    sequence = Sequence([1], 1, SamplingParams(), num_computed_tokens=1)
    results: list[Rows | Exception] = []
    Pooler("id", sequence, "last", PooledHead(), results.append).take(np.zeros((1, 3), np.float32))
    np.testing.assert_array_equal(results[0], np.zeros((1, 3)))


def tensor(name: str, *shape: int) -> Tensor:
    values = np.random.default_rng(list(name.encode())).normal(size=shape[::-1]) * 0.2
    return name, shape, by_name("F32").type_id, values.astype(np.float32).view(np.uint8)


def head_of(folder: Path, name: str, *tensors: Tensor, pooling: int | None = None) -> PooledHead:
    def edit(keys: dict[str, object], others: list[Tensor]) -> None:
        others += tensors
        if pooling is not None:
            keys[f"{name}.pooling_type"] = pooling

    with open_gguf(write_tiny(folder, name, edit)) as file:
        return read_pooled_head(file, read_config(file))


def values(item: Tensor) -> np.ndarray:
    return np.asarray(item[3]).view(np.float32).astype(np.float64).reshape(item[1][::-1])


HIDDEN_LAYER = tensor("cls.weight", HIDDEN, HIDDEN), tensor("cls.bias", HIDDEN)
LABELS = tensor("cls.output.weight", HIDDEN, 2), tensor("cls.output.bias", 2)
ROW = np.random.default_rng(2).normal(size=HIDDEN)


def test_a_classifier_with_a_hidden_layer(tmp_path: Path) -> None:
    head = head_of(tmp_path, "bert", *HIDDEN_LAYER, *LABELS, pooling=4)
    assert (head.pooling, head.rank_pooling, head.can_rank) == ("rank", "cls", True)
    weight, bias, out, out_bias = map(values, (*HIDDEN_LAYER, *LABELS))
    want = out @ np.tanh(weight @ ROW + bias) + out_bias
    np.testing.assert_allclose(head.classify(ROW), want)


def test_qwen3_s_labels_are_yes_and_no(tmp_path: Path) -> None:
    head = head_of(tmp_path, "qwen3", LABELS[0], pooling=4)
    assert head.rank_pooling == "last"
    scores = np.exp(values(LABELS[0]) @ ROW)
    np.testing.assert_allclose(head.classify(ROW), scores / scores.sum())


def test_modernbert_s_head(tmp_path: Path) -> None:
    norm = tensor("cls.norm.weight", HIDDEN)
    head = head_of(tmp_path, "modern-bert", HIDDEN_LAYER[0], norm, LABELS[0], pooling=4)
    assert head.rank_pooling == "mean"
    assert head.classify(ROW).shape == (2,)
    assert not np.allclose(head.classify(ROW), values(LABELS[0]) @ ROW)


def test_projections_of_embeddinggemma(tmp_path: Path) -> None:
    first, second = tensor("dense_2.weight", HIDDEN, 96), tensor("dense_3.weight", 96, HIDDEN)
    head = head_of(tmp_path, "gemma-embedding", first, second)
    assert head.pooling == "mean" and not head.can_rank
    np.testing.assert_allclose(head.project(ROW), values(second) @ (values(first) @ ROW))


@pytest.mark.parametrize("name", ["cls.weight", "cls.output.weight", "dense_2.weight"])
def test_a_misshapen_head_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(GGUFError, match=name):
        head_of(tmp_path, "bert", tensor(name, HIDDEN + 1, 2))


def test_what_the_file_says_goes_first(tmp_path: Path) -> None:
    assert head_of(tmp_path, "qwen3", pooling=1).pooling == "mean"
    assert head_of(tmp_path, "qwen3").pooling == "last"
    assert head_of(tmp_path, "bert").pooling == "mean"
    with pytest.raises(GGUFError, match=r"pooling_type is 9"):
        head_of(tmp_path, "bert", pooling=9)
