"""What single rows of the table say, each against a file that shows it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.gguf_loader import open_gguf
from edgellm.models import ARCHITECTURES, read_config
from tests.gguf_writer import Tensor
from tests.models.recipes.parts import HEAD_DIM, KV_WIDTH, LAYERS, Q_WIDTH, VOCAB
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
