"""A model file with a tensor wrong, missing or too many is refused by the tensor's name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.errors import GGUFError
from edgellm.gguf_loader import open_gguf
from edgellm.kernels.formats import by_name
from edgellm.models.weights import Weights
from tests.gguf_writer import F16, F32, Tensor, write_gguf
from tests.models.recipes.parts import CONTEXT, HIDDEN, VOCAB
from tests.models.running import logits_of, record_file
from tests.models.tiny import random_tensor, shapes, write_tiny

F64, I8 = 28, 24
IDS = [1, 2, 3, 4]


def replaced(tensors: list[Tensor], *new: Tensor) -> None:
    for tensor in new:
        tensors[:] = [t for t in tensors if t[0] != tensor[0]] + [tensor]


@pytest.mark.parametrize("name", [n for n in shapes("llama") if not n.startswith("blk.3")])
def test_a_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    path = write_tiny(tmp_path, "llama", lambda _, t: t.remove(next(x for x in t if x[0] == name)))
    with pytest.raises(GGUFError, match=f"tensor {name} is missing"):
        record_file(path)


def test_a_tensor_of_another_shape_is_named_with_both(tmp_path: Path) -> None:
    wrong = random_tensor("blk.2.ffn_up.weight", (HIDDEN, 128))
    path = write_tiny(tmp_path, "llama", lambda _, t: replaced(t, wrong))
    with pytest.raises(GGUFError, match=r"blk.2.ffn_up.weight has shape \(64, 128\).*\(64, 96\)"):
        record_file(path)


def test_a_type_without_arithmetic_is_refused_by_name(tmp_path: Path) -> None:
    bad = ("output_norm.weight", (HIDDEN,), I8, bytes(HIDDEN))
    path = write_tiny(tmp_path, "llama", lambda _, t: replaced(t, bad))
    with pytest.raises(GGUFError, match=r"output_norm.weight is stored as I8"):
        record_file(path)


def test_a_tensor_that_no_block_reads_is_refused(tmp_path: Path) -> None:
    extra = random_tensor("blk.0.attn_rot_embd.weight", (HIDDEN,))
    path = write_tiny(tmp_path, "llama", lambda _, t: t.append(extra))
    with pytest.raises(GGUFError, match=r"blk.0.attn_rot_embd.weight"):
        record_file(path)


def test_experts_without_a_count_are_refused(tmp_path: Path) -> None:
    path = write_tiny(tmp_path, "gpt-oss", lambda keys, _: keys.pop("gpt-oss.expert_count"))
    with pytest.raises(GGUFError, match=r"expert_used_count|expert_count"):
        record_file(path)


@pytest.mark.parametrize("divisor", [0.0, -1.0, np.nan, np.inf])
def test_frequency_divisors_must_be_positive(tmp_path: Path, divisor: float) -> None:
    bad = ("rope_freqs.weight", (16,), F32, np.array([1.0] * 15 + [divisor], np.float32))
    path = write_tiny(tmp_path, "llama", lambda _, t: t.append(bad))
    with pytest.raises(GGUFError, match=r"rope_freqs.weight"):
        record_file(path)


def test_frequency_divisors_change_positions(tmp_path: Path) -> None:
    plain = logits_of(write_tiny(tmp_path, "llama"), IDS)
    for divisor, same in ((1.0, True), (4.0, False)):
        freqs = ("rope_freqs.weight", (16,), F32, np.full(16, divisor, np.float32))
        path = write_tiny(tmp_path, "llama", lambda _, t, f=freqs: t.append(f))
        assert np.array_equal(logits_of(path, IDS), plain) == same


@pytest.mark.parametrize(("original", "used"), [(CONTEXT, 2.0), (CONTEXT - 1, 8.0)])
def test_longrope_takes_the_long_factors_beyond_the_original_context(
    tmp_path: Path, original: int, used: float
) -> None:
    def edit(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        keys["llama.rope.scaling.type"] = "longrope"
        keys["llama.rope.scaling.original_context_length"] = original
        for name, divisor in (("short", 2.0), ("long", 8.0)):
            values = np.full(16, divisor, np.float32)
            tensors.append((f"rope_factors_{name}.weight", (16,), F32, values))

    program = record_file(write_tiny(tmp_path, "llama", edit))
    (table,) = (call for call in program.calls if call.op == "rope_table")
    assert table.weights[0].data.view(np.float32)[0, 0] == 1 / used


def test_an_output_matrix_of_its_own_is_used_with_its_scale_and_bias(tmp_path: Path) -> None:
    tied = logits_of(write_tiny(tmp_path, "llama"), IDS)
    bias = np.arange(VOCAB, dtype=np.float32)
    own = [
        ("output.weight", *random_tensor("token_embd.weight", (HIDDEN, VOCAB))[1:]),
        ("output.scale", (1,), F32, np.array([3.0], np.float32)),
        ("output.bias", (VOCAB,), F32, bias),
    ]
    path = write_tiny(tmp_path, "llama", lambda _, t: t.extend(own))
    np.testing.assert_allclose(logits_of(path, IDS), 3 * tied + bias, rtol=1e-5, atol=1e-5)


def test_vectors_of_any_float_type_are_the_same(tmp_path: Path) -> None:
    ones = {
        F32: np.ones(HIDDEN, np.float32),
        F16: np.ones(HIDDEN, np.float16),
        F64: np.ones(HIDDEN, np.float64),
    }
    results = []
    for type_id, values in ones.items():
        norm = ("output_norm.weight", (HIDDEN,), type_id, values)
        path = write_tiny(tmp_path, "llama", lambda _, t, n=norm: replaced(t, n))
        results.append(logits_of(path, IDS))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_a_matrix_is_a_view_of_the_file_and_f64_a_float32_copy(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    doubles = rng.normal(size=(3, 32))
    stored = random_tensor("q", (32, 5))
    path = write_gguf(
        tmp_path / "x.gguf",
        {"general.architecture": "llama"},
        [stored, ("d", (32, 3), F64, doubles)],
    )
    with open_gguf(path) as file:
        weights = Weights(file)
        view = weights.matrix("q", 5, 32)
        assert np.shares_memory(view.data, file.data("q")) and not view.data.flags.writeable
        copy = weights.matrix("d", 3, 32)
        assert copy.format == by_name("F32")
        np.testing.assert_array_equal(copy.data.view(np.float32), doubles.astype(np.float32))
