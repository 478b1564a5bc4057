"""Descriptions of models: counts against hand-made files, memory against arithmetic."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from edgellm.errors import GGUFError
from edgellm.gguf_loader import open_gguf
from edgellm.summary import ModelSummary, summarize
from tests.gguf_writer import F16, F32, Q8_0, Tensor, write_gguf
from tests.models.heads import add_head
from tests.models.running import record_file
from tests.models.tiny import write_tiny

BASE = {
    "general.architecture": "llama",
    "llama.block_count": 3,
    "llama.context_length": 4096,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
}


def tensor(name: str, type_id: int = F32) -> Tensor:
    return (name, (32, 2), type_id, bytes({F32: 256, F16: 128, Q8_0: 68}[type_id]))


def keys(layers: int, name: str = "attn_k") -> list[Tensor]:
    return [tensor(f"blk.{layer}.{name}.weight") for layer in range(layers)]


def describe(
    folder: Path,
    extra: Mapping[str, Any],
    tensors: list[Tensor],
    context: int | None = None,
) -> ModelSummary:
    path = folder / "m.gguf"
    write_gguf(path, {**BASE, **extra}, tensors)
    with open_gguf(path) as file:
        return summarize(file, context)


def test_types_are_counted_and_largest_first(tmp_path: Path) -> None:
    tensors = [tensor("a", F16), tensor("b", Q8_0), tensor("c", Q8_0), tensor("d", Q8_0)]
    summary = describe(tmp_path, {}, tensors)
    assert [(u.type, u.tensors, u.parameters, u.bytes) for u in summary.tensor_types] == [
        ("Q8_0", 3, 192, 204),
        ("F16", 1, 64, 128),
    ]
    assert summary.parameters == 256
    assert summary.memory.weights == 332


def test_a_token_uses_some_of_the_experts(tmp_path: Path) -> None:
    tensors = [tensor("a"), tensor("blk.0.ffn_up_exps.weight"), tensor("blk.0.ffn_up_shexp.weight")]
    counts = {"llama.expert_count": 8, "llama.expert_used_count": 2}
    summary = describe(tmp_path, counts, tensors)
    assert (summary.parameters, summary.active_parameters) == (192, 144)
    assert describe(tmp_path, {}, tensors).active_parameters == 192
    each = {"llama.expert_count": 8, "llama.expert_used_count": [4, 1]}
    second = [*tensors, tensor("blk.1.ffn_up_exps.weight")]
    assert describe(tmp_path, each, second).active_parameters == 64 + 32 + 64 + 8


def test_what_the_file_says_is_passed_on(tmp_path: Path) -> None:
    summary = describe(
        tmp_path,
        {
            "general.name": "N",
            "general.license": "mit",
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "smollm",
            "tokenizer.ggml.tokens": ["a", "b"],
            "tokenizer.chat_template": "\n\n  {{ first }}\nsecond",
        },
        keys(3),
    )
    assert (summary.name, summary.license, summary.supported) == ("N", "mit", True)
    assert (summary.layers, summary.context_length) == (3, 4096)
    assert summary.chat_template == "{{ first }}"
    tokenizer = summary.tokenizer
    assert (tokenizer.model, tokenizer.pre, tokenizer.vocab_size) == ("gpt2", "smollm", 2)


def test_heads_that_predict_further_tokens_are_counted(tmp_path: Path) -> None:
    heads = [tensor(f"blk.{layer}.nextn.eh_proj.weight") for layer in (3, 4)]
    summary = describe(tmp_path, {}, [*keys(3), *heads])
    assert (summary.mtp_heads, summary.uses_mtp) == (2, False)
    with open_gguf(write_tiny(tmp_path, "glm4moe", add_head)) as file:
        known = summarize(file)
    assert (known.mtp_heads, known.uses_mtp) == (1, True)


def test_what_is_absent_is_none(tmp_path: Path) -> None:
    summary = describe(tmp_path, {}, keys(3))
    assert (summary.name, summary.license, summary.chat_template) == (None, None, None)
    assert (summary.tokenizer.model, summary.tokenizer.vocab_size) == (None, 0)


# Bytes for one token and layer in f16: heads x (key + value) x 2; head_dim is 64 / 4 = 16.
@pytest.mark.parametrize(
    ("extra", "tensors", "expected"),
    [
        ({}, keys(3), 3 * 100 * 4 * 32 * 2),
        ({"llama.attention.head_count_kv": 2}, keys(3), 3 * 100 * 2 * 32 * 2),
        ({"llama.attention.head_count_kv": [2, 0, 1]}, keys(3), 100 * 3 * 32 * 2),
        (
            {"llama.attention.key_length": 24, "llama.attention.value_length": 8},
            keys(3),
            3 * 100 * 4 * 32 * 2,
        ),
        ({}, keys(2), 2 * 100 * 4 * 32 * 2),
        ({}, keys(3, "attn_qkv"), 3 * 100 * 4 * 32 * 2),
        ({}, [*keys(3, "attn_qkv"), *keys(2, "ssm_out")], 1 * 100 * 4 * 32 * 2),
        ({}, keys(3, "attn_kv_a_mqa"), 3 * 100 * 4 * 32 * 2),
        ({"llama.attention.head_count": 0}, keys(3), 0),
        ({"llama.attention.sliding_window": 30}, keys(3), 3 * 100 * 4 * 32 * 2),
        (
            {
                "llama.attention.sliding_window": 30,
                "llama.attention.sliding_window_pattern": [1, 1, 0],
            },
            keys(3),
            (30 + 30 + 100) * 4 * 32 * 2,
        ),
        (
            {
                "llama.attention.sliding_window": 30,
                "llama.attention.sliding_window_pattern": 2,
            },
            keys(3),
            (30 + 100 + 30) * 4 * 32 * 2,
        ),
        (
            {
                "llama.attention.sliding_window": 30,
                "llama.attention.sliding_window_pattern": [1, 0],
                "llama.nextn_predict_layers": 1,
            },
            keys(3),
            (30 + 100 + 100) * 4 * 32 * 2,
        ),
    ],
)
def test_the_cache_is_reckoned_layer_by_layer(
    extra: Mapping[str, Any], tensors: list[Tensor], expected: int, tmp_path: Path
) -> None:
    memory = describe(tmp_path, extra, tensors, context=100).memory
    assert memory.kv_cache == expected
    assert memory.total == memory.weights + expected


@pytest.mark.parametrize("name", ["rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7", "mamba2", "qwen35"])
def test_states_are_those_that_the_program_keeps(tmp_path: Path, name: str) -> None:
    path = write_tiny(tmp_path, name)
    states = record_file(path).state_layers
    with open_gguf(path) as file:
        assert summarize(file).memory.states == 4 * sum(s.rows * s.width for s in states)


def test_states_are_reckoned_whatever_the_context(tmp_path: Path) -> None:
    """Two Mamba layers, a delta attention of 2 heads of 8, and a short convolution."""
    extra = {"llama.ssm.inner_size": 64, "llama.ssm.state_size": 16, "llama.kda.head_dim": 8}
    sizes: dict[str, tuple[int, ...]] = {
        "0.ssm_a": (16, 64),
        "0.ssm_conv1d.weight": (4, 64),
        "1.ssm_a": (1, 2),
        "1.ssm_conv1d.weight": (4, 96),
        "2.ssm_conv1d_q.weight": (4, 1, 16),
        "2.ssm_dt.bias": (16,),
        "3.shortconv.conv.weight": (3, 32),
    }
    tensors = [(f"blk.{n}", s, F32, bytes(4 * math.prod(s))) for n, s in sizes.items()]
    expected = 2 * 64 * 16 + 3 * (64 + 96) + 3 * 16 + 16 * 8 + 2 * 32
    for context in (10, 1000):
        memory = describe(tmp_path, extra, tensors, context=context).memory
        assert memory.states == 4 * expected
        assert memory.total == memory.weights + memory.kv_cache + memory.states


@pytest.mark.parametrize(("trained", "context"), [(4096, 4096), (131072, 8192)])
def test_the_context_is_what_loading_would_take(trained: int, context: int, tmp_path: Path) -> None:
    summary = describe(tmp_path, {"llama.context_length": trained}, keys(3))
    assert summary.memory.context == context


def test_an_unknown_architecture_is_described_all_the_same(tmp_path: Path) -> None:
    extra = {"general.architecture": "neverheardof", "neverheardof.block_count": 2}
    summary = describe(tmp_path, extra, keys(2))
    assert (summary.architecture, summary.supported, summary.layers) == ("neverheardof", False, 2)
    assert summary.memory.kv_cache == 0


@pytest.mark.parametrize(
    "extra",
    [
        {"llama.attention.head_count_kv": [1, 2]},
        {"general.name": 3},
        {"tokenizer.chat_template": ["x"]},
    ],
)
def test_contradictions_are_gguf_errors(extra: Mapping[str, Any], tmp_path: Path) -> None:
    with pytest.raises(GGUFError, match=next(iter(extra))):
        describe(tmp_path, extra, keys(3))


def test_no_architecture_is_a_gguf_error(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, {}, [tensor("a")])
    with open_gguf(path) as file, pytest.raises(GGUFError, match="general.architecture"):
        summarize(file)


def test_every_architecture_of_the_oracle_is_described(oracle: Path) -> None:
    for path in sorted((oracle / "archs").glob("*.gguf")):
        with open_gguf(path) as file:
            summary = summarize(file, 64)
        assert summary.parameters > 0
        assert summary.memory.kv_cache > 0 or summary.memory.states > 0, path.name
