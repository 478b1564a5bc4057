"""What drives weights: sums of squares as the reference has them, for every kind of product."""

from pathlib import Path

import numpy as np
import pytest

from edgellm.backends import Backends
from edgellm.gguf_loader import open_gguf
from edgellm.kernels.formats import by_id, dequantize_rows
from edgellm.quantize.collect import collect
from edgellm.quantize.importance import Driven
from tests.models.tiny import write_tiny

CHUNKS = [[1, 5, 3, 7, 2, 9, 11], [1, 2, 3, 4]]
TOKENS = sum(map(len, CHUNKS))
KINDS = ["llama", "gemma3", "qwen3moe", "deepseek2", "mamba2", "lfm2"]


def collected(path: Path, backend: str) -> dict[str, Driven]:
    backends = Backends(print)
    try:
        with open_gguf(path) as file:
            return dict(collect(file, CHUNKS, 32, backends, backend))
    finally:
        backends.close()


def test_first_products_see_normed_embeddings(tmp_path: Path) -> None:
    path = write_tiny(tmp_path, "llama")
    found = collected(path, "reference")
    with open_gguf(path) as file:
        tensor = file.tensors["token_embd.weight"]
        stored = file.data(tensor.name).reshape(tensor.rows, -1)
        rows = dequantize_rows(by_id(tensor.type_id), stored)[[i for ids in CHUNKS for i in ids]]
        norm = file.data("blk.0.attn_norm.weight").view(np.float32)
        wide = {name for name, t in file.tensors.items() if len(t.shape) > 1}
    x = rows.astype(np.float64)
    x = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5) * norm
    for part in ("attn_q", "attn_k", "attn_v"):
        seen = found[f"blk.0.{part}.weight"]
        np.testing.assert_allclose(seen.sums[0], (x**2).sum(axis=0), rtol=1e-5)
        assert seen.counts.tolist() == [TOKENS]
    assert found.keys() == wide - {"token_embd.weight", "output.weight"}


@pytest.mark.parametrize("name", KINDS)
def test_the_processor_sees_what_the_reference_sees(tmp_path: Path, name: str) -> None:
    path = write_tiny(tmp_path, name, format_name="F32")
    want, got = collected(path, "reference"), collected(path, "cpu")
    assert got.keys() == want.keys()
    for weight, seen in want.items():
        assert np.array_equal(got[weight].counts, seen.counts), weight
        # The processor's cache stores halves.
        scale = seen.sums.max()
        np.testing.assert_allclose(got[weight].sums, seen.sums, rtol=0.02, atol=0.005 * scale)


def test_experts_are_counted_apart(tmp_path: Path) -> None:
    path = write_tiny(tmp_path, "qwen3moe")
    found = collected(path, "reference")
    with open_gguf(path) as file:
        used = file.integer("qwen3moe.expert_used_count") or 0
        (columns, _, experts) = file.tensors["blk.0.ffn_down_exps.weight"].shape
    seen = found["blk.0.ffn_down_exps.weight"]
    assert seen.sums.shape == (experts, columns)
    assert seen.counts.sum() == TOKENS * used
    assert not seen.sums[seen.counts == 0].any()
