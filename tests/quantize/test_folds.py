"""Scales that move between weights: logits stay as they are, bit for bit for powers of two."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from edgellm.gguf_loader import GGUFFile, open_gguf
from edgellm.models import read_config, record
from edgellm.quantize.folds import Factors, Fold, Folds, factors_of, find_folds, scaled
from tests.gguf_writer import Tensor
from tests.models.recipes import RECIPES
from tests.models.recipes.parts import VOCAB
from tests.models.running import hidden_of
from tests.models.tiny import Edit, write_tiny

IDS = np.random.default_rng(5).integers(0, VOCAB, size=12).tolist()


def folds_of(file: GGUFFile) -> Folds:
    return find_folds(record(file, read_config(file), 16, ()), file)


def with_factors(factors: Mapping[str, Factors]) -> Edit:
    """An edit for write_tiny."""

    def edit(keys: object, tensors: list[Tensor]) -> None:
        for at, (name, shape, type_id, data) in enumerate(tensors):
            if name in factors:
                values = np.array(data).view(np.float32).reshape(-1, shape[0])
                tensors[at] = name, shape, type_id, scaled(values, factors[name])

    return edit


# One of each way in which weights lie and values flow.
DIFFERENT = (
    *("llama", "bitnet", "gpt2", "chatglm", "falcon", "command-r", "deci", "jais", "cogvlm"),
    *("gemma3n", "gemma4", "deepseek2", "qwen3moe", "gpt-oss", "llama4", "jamba", "qwen3next"),
)


@pytest.mark.parametrize("name", DIFFERENT)
def test_logits_stay_as_they_are(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)

    def powers(fold: Fold) -> np.ndarray:
        return np.ldexp(np.float32(1), rng.integers(-3, 4, fold.size)).astype(np.float32)

    path = write_tiny(tmp_path, name, format_name="F32")
    want = hidden_of(path, [IDS])[0]
    with open_gguf(path) as file:
        found = folds_of(file).found
        factors = factors_of(file, [(fold, powers(fold)) for fold in found])
    moved = write_tiny(tmp_path, name, with_factors(factors), format_name="F32")
    np.testing.assert_array_equal(hidden_of(moved, [IDS])[0], want)


@pytest.mark.parametrize("name", RECIPES)
def test_all_matrices_of_all_architectures_are_spoken_of(tmp_path: Path, name: str) -> None:
    with open_gguf(write_tiny(tmp_path, name, format_name="F32")) as file:
        folds = folds_of(file)
        products = set(folds.fixed).union(*(fold.readers for fold in folds.found))
        assert products <= file.tensors.keys() and products
        for fold in folds.found:
            assert fold.makers and fold.spread.max() + 1 == fold.size
            assert {file.tensors[name].columns for name in fold.readers} == {len(fold.spread)}


def test_what_can_move(tmp_path: Path) -> None:
    """Norms into what reads them, values into the output of attention, up into down."""
    with open_gguf(write_tiny(tmp_path, "llama", format_name="F32")) as file:
        folds = folds_of(file)
    named = {
        tuple(maker.tensor for maker in fold.makers): fold.readers
        for fold in folds.found
        if fold.readers[0].startswith("blk.0.")
    }
    assert {
        tuple(name[6:-7] for name in makers): {name[6:-7] for name in readers}
        for makers, readers in named.items()
    } == {
        ("attn_norm",): {"attn_q", "attn_k", "attn_v"},
        ("attn_v",): {"attn_output"},
        ("ffn_norm",): {"ffn_gate", "ffn_up"},
        ("ffn_up",): {"ffn_down"},
    }
    assert not folds.fixed


@pytest.mark.parametrize(
    ("name", "tensor", "why"),
    [
        ("gpt2", "blk.0.ffn_down.weight", "comes from activate"),
        ("mpt", "blk.0.attn_output.weight", "comes from clamp"),
        ("nanbeige", "blk.0.ffn_up.weight", "several values"),
        ("olmo2", "blk.0.attn_q.weight", "not read by matrices alone"),
        ("olmo", "blk.0.attn_q.weight", "no weight of its own"),
    ],
)
def test_what_cannot(tmp_path: Path, name: str, tensor: str, why: str) -> None:
    with open_gguf(write_tiny(tmp_path, name, format_name="F32")) as file:
        assert why in folds_of(file).fixed[tensor]
