"""What single rows of the table say, each against a file that shows it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.errors import GGUFError
from edgellm.gguf_loader import open_gguf
from edgellm.models import ARCHITECTURES, read_config, record
from tests.gguf_writer import Tensor
from tests.models.recipes.parts import (
    CONTEXT,
    HEAD_DIM,
    HIDDEN,
    KV_WIDTH,
    LAYERS,
    Q_WIDTH,
    VOCAB,
)
from tests.models.running import logits_of, record_file
from tests.models.tiny import random_tensor, write_tiny

IDS = np.random.default_rng(5).integers(0, VOCAB, size=20).tolist()


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("cogvlm", {"rope_freqs.weight": (HEAD_DIM // 2,)}),
        ("pangu-embedded", {"rope_freqs.weight": (HEAD_DIM // 2,)}),
        ("qwen2vl", {"output.bias": (VOCAB,)}),
        (
            "apertus",
            {f"blk.{i}.attn_{n}_norm.bias": (HEAD_DIM,) for i in range(LAYERS) for n in "qk"},
        ),
        (
            "deepseek32",
            {
                f"blk.{layer}.indexer.{name}": shape
                for layer in range(LAYERS)
                for name, shape in (
                    ("k_norm.weight", (HEAD_DIM,)),
                    ("k_norm.bias", (HEAD_DIM,)),
                    ("proj.weight", (HIDDEN, 3)),
                    ("attn_k.weight", (HIDDEN, HEAD_DIM)),
                    ("attn_q_b.weight", (32, 3 * HEAD_DIM)),
                )
            },
        ),
        (
            "mimo2",
            {
                f"blk.{layer}.attn_{part}.bias": (width,)
                for layer in range(LAYERS)
                for part, width in (("q", Q_WIDTH), ("k", KV_WIDTH), ("v", KV_WIDTH))
            },
        ),
    ],
)
def test_what_a_family_does_not_have_changes_nothing(
    tmp_path: Path, name: str, extra: dict[str, tuple[int, ...]]
) -> None:
    def with_extra(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        tensors += [random_tensor(tensor, shape) for tensor, shape in extra.items()]

    want = logits_of(write_tiny(tmp_path, name), IDS)
    np.testing.assert_array_equal(logits_of(write_tiny(tmp_path, name, with_extra), IDS), want)


def test_only_the_baichuan_of_32_layers_rotates(tmp_path: Path) -> None:
    with open_gguf(write_tiny(tmp_path, "baichuan")) as file:
        config = replace(read_config(file), max_alibi_bias=0.0)
    row = ARCHITECTURES["baichuan"]
    kinds = {
        layers: (row.rotates(resized, 0), row.alibi(resized))
        for layers in (6, 32, 40)
        for resized in (replace(config, num_layers=layers),)
    }
    assert kinds == {6: (False, 0.0), 32: (True, 0.0), 40: (False, 8.0)}


@pytest.mark.parametrize("name", ["gemma2", "gpt-oss"])
def test_windowed_layers_take_the_base_of_their_key_and_the_scaling_of_all(
    tmp_path: Path, name: str
) -> None:
    def with_base(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        keys |= {
            f"{name}.rope.freq_base_swa": 3000.0,
            f"{name}.rope.scaling.type": "linear",
            f"{name}.rope.scaling.factor": 4.0,
        }

    calls = record_file(write_tiny(tmp_path, name, with_base)).calls
    tables = [call.weights[0].data.view(np.float32)[0] for call in calls if call.op == "rope_table"]
    assert sorted(table[0] for table in tables) == [0.25, 0.25]
    powers = np.arange(HEAD_DIM // 2) * 2 / HEAD_DIM
    bases = sorted(float((table[1] / table[0]) ** (-1 / powers[1])) for table in tables)
    np.testing.assert_allclose(bases, [3000.0, 50000.0], rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "key", "differs"),
    [
        ("deepseek32", "indexer.top_k", "an indexer picks"),
        ("glm-dsa", "indexer.top_k", "an indexer picks"),
        ("grok", "temperature_length", "queries are scaled"),
    ],
)
def test_a_context_beyond_what_is_computed_is_refused(
    tmp_path: Path, name: str, key: str, differs: str
) -> None:
    def with_few(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        keys[f"{name}.attention.{key}"] = 64

    with open_gguf(write_tiny(tmp_path, name, with_few)) as file:
        config = read_config(file)
        assert config.context_length == 64 < CONTEXT
        assert config.rope_scaling.original_context == CONTEXT
        record(file, config, 64)
        with pytest.raises(GGUFError, match=f"beyond 64 tokens .*{differs}"):
            record(file, config, 65)


def test_layers_that_run_twice_are_as_if_they_were_there_again(tmp_path: Path) -> None:
    def looped(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        keys["nanbeige.skip_loop_final_norm"] = True

    def doubled(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        keys |= {"nanbeige.num_loops": 1, "nanbeige.block_count": 2 * LAYERS}
        for name, *rest in list(tensors):
            if name.startswith("blk."):
                _, layer, part = name.split(".", 2)
                tensors.append((f"blk.{int(layer) + LAYERS}.{part}", *rest))

    want = logits_of(write_tiny(tmp_path, "nanbeige", doubled), IDS)
    np.testing.assert_array_equal(logits_of(write_tiny(tmp_path, "nanbeige", looped), IDS), want)
    normed_between = logits_of(write_tiny(tmp_path, "nanbeige"), IDS)
    assert np.abs(normed_between - want).max() > 1e-2


def test_norms_behind_blocks_may_have_an_epsilon_of_their_own(tmp_path: Path) -> None:
    calls = record_file(write_tiny(tmp_path, "muse-glimmer")).calls
    epsilons = [call.attributes["eps"] for call in calls if call.op == "rms_norm"]
    assert epsilons.count(1e-8) == 2 * LAYERS
    # Of embeddings, before both blocks, of queries and keys, and the last one.
    assert len(epsilons) - 2 * LAYERS == 2 + 4 * LAYERS


def test_a_file_may_say_which_layers_rotate(tmp_path: Path) -> None:
    calls = record_file(write_tiny(tmp_path, "granite_swa")).calls
    assert sum(call.op == "rope" for call in calls) == 2 * 4


def test_maple_limits_what_the_activation_of_gates_reads(tmp_path: Path) -> None:
    calls = record_file(write_tiny(tmp_path, "maple")).calls
    limits = {call.attributes["limit"] for call in calls if call.op == "clamp"}
    gate, up = sorted(limits)
    assert up == pytest.approx(0.6)
    assert gate == pytest.approx(0.6 / (1 + np.exp(-0.6)))


def test_a_bias_of_logits_needs_no_matrix_of_theirs(tmp_path: Path) -> None:
    def tied(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        tensors[:] = [tensor for tensor in tensors if tensor[0] != "output.weight"]

    def unbiased(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        tensors[:] = [tensor for tensor in tensors if not tensor[0].startswith("output.")]

    _, _, _, stored = random_tensor("output.bias", (VOCAB,))
    bias = np.asarray(stored).view(np.float32)[0]
    got = logits_of(write_tiny(tmp_path, "phi2", tied), IDS)
    plain = logits_of(write_tiny(tmp_path, "phi2", unbiased), IDS)
    np.testing.assert_allclose(got, plain + bias, rtol=1e-5, atol=1e-5)
