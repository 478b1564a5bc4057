"""Files in other types: metadata as it was, tensors as the formats quantise them."""

from pathlib import Path

import numpy as np
import pytest

from edgellm.errors import GGUFError, RequestError
from edgellm.gguf_loader import open_gguf
from edgellm.kernels.formats import by_id, by_name, dequantize_rows, quantize_rows
from edgellm.kernels.formats.format import Values
from edgellm.quantize.importance import Importance
from edgellm.quantize.plan import make_plan
from edgellm.quantize.write import write_quantized
from tests.gguf_writer import F16, F32, Tensor, array, int8, write_gguf
from tests.models.running import logits_of
from tests.models.tiny import write_tiny

EXPERTS, ROWS, COLUMNS = 3, 300, 512
KEYS = {
    "general.architecture": "llama",
    "general.file_type": 1,
    "a.key": int8(-1),
    "tokenizer.ggml.tokens": ["a", "b"],
    "nested": array(9, [array(4, [1])]),
    "general.alignment": 64,
}


def weights(seed: int) -> Values:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((EXPERTS, ROWS, COLUMNS)).astype(np.float32)


def write_source(folder: Path, values: Values) -> Path:
    half = values.astype(np.float16)
    tensors: list[Tensor] = [
        ("blk.0.ffn_up_exps.weight", (COLUMNS, ROWS, EXPERTS), F16, half),
        ("blk.0.ffn_gate.weight", (COLUMNS, ROWS), F16, half[0]),
        ("blk.0.attn_norm.weight", (COLUMNS,), F32, values[0, 0]),
        ("ids", (3,), 26, np.arange(3, dtype=np.int32)),
    ]
    return write_gguf(folder / "in.gguf", KEYS, tensors, alignment=64)


@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_written(tmp_path: Path, threads: int) -> None:
    values = weights(0).astype(np.float16).astype(np.float32)
    mean = np.random.default_rng(1).random((EXPERTS, COLUMNS)).astype(np.float32)
    means = {"blk.0.ffn_up_exps.weight": mean, "blk.0.ffn_gate.weight": mean[:1]}
    path = tmp_path / "out.gguf"
    watched: list[tuple[int, int, str]] = []
    with open_gguf(write_source(tmp_path, values)) as file:
        write_quantized(
            file,
            make_plan(file, "Q4_K", pure=True),
            path,
            threads,
            Importance(means, ("text",), 2, "i.gguf"),
            watch=lambda *seen: watched.append(seen),
        )
        before = dict(file.metadata)
    assert watched[-1][0] == watched[-1][1] == watched[0][1]
    with open_gguf(path) as file:
        for key in ("general.architecture", "a.key", "nested"):
            assert repr(file.metadata[key]) == repr(before[key])
        assert file.alignment == 64
        assert file.integer("general.file_type") == 15
        assert file.integer("general.quantization_version") == 2
        assert file.integer("quantize.imatrix.chunks_count") == 2
        fmt = by_name("Q4_K")
        got = file.data("blk.0.ffn_up_exps.weight").reshape(EXPERTS, ROWS, -1)
        for expert in range(EXPERTS):
            assert np.array_equal(got[expert], quantize_rows(fmt, values[expert], mean[expert]))
        got = file.data("blk.0.ffn_gate.weight").reshape(ROWS, -1)
        assert np.array_equal(got, quantize_rows(fmt, values[0], mean[0]))
        assert file.data("ids").view(np.int32).tolist() == [0, 1, 2]


def test_the_input_is_never_written_to(tmp_path: Path) -> None:
    source = write_source(tmp_path, weights(0))
    before = source.read_bytes()
    (tmp_path / "link.gguf").symlink_to(source)
    (tmp_path / "hard.gguf").hardlink_to(source)
    with open_gguf(source) as file:
        plan = make_plan(file, "Q8_0")
        for name in ("in.gguf", "link.gguf", "hard.gguf"):
            with pytest.raises(RequestError, match="is read"):
                write_quantized(file, plan, tmp_path / name, 1, replace=True)
    assert source.read_bytes() == before


def test_what_cannot_be_quantised_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    values = weights(0)
    values[2, -1, -1] = np.inf
    with open_gguf(write_source(tmp_path, values)) as file:
        plan = make_plan(file, "Q8_0")
        with pytest.raises(RequestError, match=r"ffn_up_exps.weight' to Q8_0: .*infinity"):
            write_quantized(file, plan, tmp_path / "out.gguf", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["in.gguf"]


@pytest.mark.parametrize("shape", [(1, COLUMNS + 1), (2, COLUMNS)])
def test_importance_of_another_model(tmp_path: Path, shape: tuple[int, int]) -> None:
    means = {"blk.0.ffn_up_exps.weight": np.ones(shape, np.float32)}
    with open_gguf(write_source(tmp_path, weights(0))) as file:
        plan = make_plan(file, "Q8_0")
        with pytest.raises(GGUFError, match="of another model"):
            write_quantized(
                file, plan, tmp_path / "out.gguf", 1, Importance(means, (), 0), replace=True
            )


def test_every_type_from_every_type(tmp_path: Path) -> None:
    """Tensors that are there already are copied; others go by way of their numbers."""
    values = np.random.default_rng(0).standard_normal((4, 256)).astype(np.float32)
    for name in ("Q5_1", "IQ4_NL", "Q6_K", "BF16"):
        source = by_name(name)
        stored = quantize_rows(source, values)
        tensors: list[Tensor] = [("x.weight", (256, 4), source.type_id, stored)]
        path = write_gguf(tmp_path / f"{name}.gguf", {"general.architecture": "llama"}, tensors)
        for target in ("Q6_K", "Q8_0"):
            out = tmp_path / f"{name}-{target}.gguf"
            with open_gguf(path) as file:
                write_quantized(file, make_plan(file, target), out, 2)
            with open_gguf(out) as file:
                tensor = file.tensors["x.weight"]
                assert by_id(tensor.type_id).name == target
                got = dequantize_rows(by_name(target), file.data("x.weight").reshape(4, -1))
            seen = dequantize_rows(source, stored)
            if name == target:
                assert np.array_equal(got, seen)
            assert np.abs(got - seen).max() < 0.1


def test_a_tiny_model_still_runs(tmp_path: Path) -> None:
    path = write_tiny(tmp_path, "llama", format_name="F16")
    ids = list(range(1, 20))
    want = logits_of(path, ids)
    out = tmp_path / "q8.gguf"
    with open_gguf(path) as file:
        write_quantized(file, make_plan(file, "Q8_0"), out, 1)
    got = logits_of(out, ids)
    assert 0 < ((got - want) ** 2).mean() / (want**2).mean() < 2e-3
