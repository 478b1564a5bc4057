"""Second moments: those of the inputs, whatever may be held at once; and what becomes of them."""

from pathlib import Path

import numpy as np
import pytest

from edgellm.backends import Backends
from edgellm.gguf_loader import GGUFFile, open_gguf
from edgellm.kernels.formats import by_id, by_name, dequantize_rows
from edgellm.quantize.gptq import compensated
from edgellm.quantize.importance import Importance
from edgellm.quantize.moments import Moments
from edgellm.quantize.plan import make_plan
from edgellm.quantize.write import write_quantized
from tests.models.tiny import write_tiny

CHUNKS = [[1, 5, 3, 7, 2, 9, 11], [1, 2, 3, 4]]


def values(file: GGUFFile, name: str) -> np.ndarray:
    tensor = file.tensors[name]
    stored = file.data(name).reshape(tensor.rows, -1)
    return dequantize_rows(by_id(tensor.type_id), stored)


@pytest.mark.parametrize("held", [1, 1 << 30])
def test_they_are_those_of_the_inputs(tmp_path: Path, held: int) -> None:
    backends = Backends(print)
    try:
        with (
            open_gguf(write_tiny(tmp_path, "llama", format_name="F16")) as file,
            Moments(file, CHUNKS, backends, held=held) as moments,
        ):
            rows = values(file, "token_embd.weight")[[i for ids in CHUNKS for i in ids]]
            x = rows / np.sqrt((rows**2).mean(axis=1, keepdims=True) + 1e-5)
            x = x * values(file, "blk.0.attn_norm.weight")[0]
            for part in ("attn_q", "attn_v", "ffn_down", "attn_q"):
                name = f"blk.0.{part}.weight"
                found = moments.of(name)
                assert found.shape == (file.tensors[name].columns,) * 2
                np.testing.assert_allclose(found, found.T, atol=1e-4)
                if part != "ffn_down":
                    np.testing.assert_allclose(found, x.T @ x, rtol=1e-3, atol=1e-3)
            with Moments(file, CHUNKS, backends, names={"blk.1.ffn_up.weight"}) as few:
                assert "blk.1.ffn_up.weight" in few and "blk.0.attn_q.weight" not in few
                want = few.of("blk.1.ffn_up.weight")
                np.testing.assert_array_equal(want, moments.of("blk.1.ffn_up.weight"))
            assert "token_embd.weight" not in moments and "blk.1.ffn_up.weight" in moments
            later = moments.of("blk.1.ffn_up.weight")
            assert np.linalg.eigvalsh(later.astype(np.float64)).min() > -1e-3 * np.trace(later)
    finally:
        backends.close()


def test_what_is_written(tmp_path: Path) -> None:
    """Matrices that can be are rounded with moments; the others as without."""
    out = tmp_path / "out.gguf"
    backends = Backends(print)
    try:
        with (
            open_gguf(write_tiny(tmp_path, "llama", format_name="F16")) as file,
            Moments(file, CHUNKS, backends) as moments,
        ):
            name = "blk.0.ffn_down.weight"
            plan = make_plan(file, "Q4_0", pure=True)
            write_quantized(file, plan, out, 1, Importance({}, (), 0), moments=moments)
            want = compensated(values(file, name), moments.of(name), by_name("Q4_0"))
            plain = tmp_path / "plain.gguf"
            write_quantized(file, plan, plain, 1)
    finally:
        backends.close()
    with open_gguf(out) as file, open_gguf(plain) as other:
        assert np.array_equal(file.data(name), want.reshape(-1))
        assert np.array_equal(file.data("token_embd.weight"), other.data("token_embd.weight"))
        assert file.tensors.keys() == other.tensors.keys()
