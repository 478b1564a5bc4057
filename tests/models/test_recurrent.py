"""Models with states: what a file must hold, and layouts that mean the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.errors import GGUFError
from edgellm.gguf_loader import open_gguf
from edgellm.kernels.formats import by_id, by_name, dequantize_rows
from edgellm.summary import summarize
from tests.gguf_writer import Tensor
from tests.models.recipes.recurrent import GROUPS, INNER, KEYS, SSM_HEADS, STATE
from tests.models.running import logits_of, record_file
from tests.models.tiny import write_tiny

IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def _leave_out(tensors: list[Tensor], name: str) -> None:
    tensors[:] = [tensor for tensor in tensors if tensor[0] != name]


@pytest.mark.parametrize("name", ["jamba", "mamba2", "qwen35"])
def test_a_missing_size_is_named(tmp_path: Path, name: str) -> None:
    for key in KEYS:
        path = write_tiny(tmp_path, name, lambda keys, _, gone=key: keys.pop(f"{name}.{gone}"))
        with pytest.raises(GGUFError, match=f"{name}.{key} is missing"):
            record_file(path)


@pytest.mark.parametrize(
    ("key", "value"), [("ssm.time_step_rank", 5), ("ssm.group_count", 4), ("ssm.state_size", 8)]
)
@pytest.mark.parametrize("name", ["mamba2", "qwen35"])
def test_sizes_that_do_not_fit_are_refused(tmp_path: Path, name: str, key: str, value: int) -> None:
    path = write_tiny(tmp_path, name, lambda keys, _: keys.update({f"{name}.{key}": value}))
    with pytest.raises(GGUFError, match=r"expected"):
        record_file(path)


def test_heads_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = write_tiny(tmp_path, "rwkv7", lambda keys, _: keys.update({"rwkv7.wkv.head_size": 10}))
    with pytest.raises(GGUFError, match="rwkv7.wkv.head_size is 10, expected a divisor of 64"):
        record_file(path)


def test_a_safe_gate_needs_its_bound(tmp_path: Path) -> None:
    path = write_tiny(
        tmp_path, "kimi-linear", lambda keys, _: keys.update({"kimi-linear.kda.safe_gate": True})
    )
    with pytest.raises(GGUFError, match=r"kimi-linear.kda.gate_lower_bound is missing"):
        record_file(path)


def test_a_norm_may_lack_the_suffix_of_its_name(tmp_path: Path) -> None:
    def edit(_: dict[str, Any], tensors: list[Tensor]) -> None:
        tensors[:] = [(t[0].replace("ffn_norm.weight", "ffn_norm"), *t[1:]) for t in tensors]

    want = logits_of(write_tiny(tmp_path, "falcon-h1"), IDS)
    np.testing.assert_array_equal(logits_of(write_tiny(tmp_path, "falcon-h1", edit), IDS), want)


def test_projections_in_one_matrix_head_by_head_are_the_same(tmp_path: Path) -> None:
    """q, k, v and gate, and beta and alpha, as Hugging Face has them and earlier files do."""

    def edit(_: dict[str, Any], tensors: list[Tensor]) -> None:
        for layer in range(6):
            found = {t[0]: t for t in tensors if t[0].startswith(f"blk.{layer}.")}
            if f"blk.{layer}.ssm_alpha.weight" in found:
                tensors += _interleaved(found, f"blk.{layer}")
                for part in ("attn_qkv", "attn_gate", "ssm_alpha", "ssm_beta"):
                    _leave_out(tensors, f"blk.{layer}.{part}.weight")

    want = logits_of(write_tiny(tmp_path, "qwen35"), IDS)
    got = logits_of(write_tiny(tmp_path, "qwen35", edit), IDS)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def _interleaved(found: dict[str, Tensor], prefix: str) -> list[Tensor]:
    """ssm_in and ssm_ba of a layer that has their parts one by one."""

    def rows(part: str) -> list[Any]:
        _, shape, type_id, stored = found[f"{prefix}.{part}.weight"]
        fmt = by_id(type_id)
        data = np.asarray(stored).view(np.uint8).reshape(shape[1], -1)
        return list(dequantize_rows(fmt, data))

    qkv, heads = rows("attn_qkv"), GROUPS
    q, k, v = qkv[: heads * STATE], qkv[heads * STATE : 2 * heads * STATE], qkv[2 * heads * STATE :]
    mixed = _by_head(q, k, v, rows("attn_gate"))
    rates = _by_head(rows("ssm_beta"), rows("ssm_alpha"))
    assert len(mixed) == 2 * heads * STATE + 2 * INNER and len(rates) == 2 * SSM_HEADS
    return [
        (f"{prefix}.{name}.weight", values.shape[::-1], by_name("F32").type_id, values)
        for name, values in (("ssm_in", mixed), ("ssm_ba", rates))
    ]


def _by_head(*parts: list[Any]) -> Any:
    """A key head's rows of every part, then the next head's."""
    split = [np.array_split(np.array(part), GROUPS) for part in parts]
    return np.concatenate([part[head] for head in range(GROUPS) for part in split])


@pytest.mark.parametrize("name", ["mamba", "jamba", "qwen35", "kimi-linear", "lfm2", "rwkv7"])
def test_the_memory_said_is_the_memory_taken(tmp_path: Path, name: str) -> None:
    path = write_tiny(tmp_path, name)
    with open_gguf(path) as file:
        said = summarize(file).memory.states
    layers = record_file(path).state_layers
    assert said == 4 * sum(state.rows * state.width for state in layers)
