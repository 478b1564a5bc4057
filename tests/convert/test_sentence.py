"""Folders of Sentence Transformers: pooling, and projections behind it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.convert.checkpoint import open_checkpoint
from edgellm.convert.write import write_converted
from edgellm.errors import EdgeLLMError
from edgellm.gguf_loader import open_gguf
from tests.convert.checkpoints import save_safetensors, small_tokenizer
from tests.convert.golden import golden, weights_of

MODULES = [
    {"type": "sentence_transformers.models.Transformer", "path": ""},
    {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
    {"type": "sentence_transformers.models.Dense", "path": "2_Dense"},
    {"type": "sentence_transformers.models.Normalize", "path": "4_Normalize"},
]
IDENTITY = "torch.nn.modules.linear.Identity"


def write_folder(folder: Path, pooling: dict[str, Any], activation: str = IDENTITY) -> None:
    model = golden("gemma-embedding")
    for part in ("1_Pooling", "2_Dense"):
        (folder / part).mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(model.config))
    (folder / "tokenizer.json").write_text(json.dumps(small_tokenizer()))
    (folder / "modules.json").write_text(json.dumps(MODULES))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "2_Dense" / "config.json").write_text(json.dumps({"activation_function": activation}))
    save_safetensors(folder / "model.safetensors", weights_of(model.shapes))
    dense = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    save_safetensors(folder / "2_Dense" / "model.safetensors", {"linear.weight": dense})


@pytest.mark.parametrize(
    ("mode", "number"), [("mean_tokens", 1), ("cls_token", 2), ("lasttoken", 3)]
)
def test_pooling_and_projections(tmp_path: Path, mode: str, number: int) -> None:
    settings = {"word_embedding_dimension": 32, "pooling_mode_max_tokens": False}
    write_folder(tmp_path / "model", {**settings, f"pooling_mode_{mode}": True})
    path = tmp_path / "out.gguf"
    write_converted(open_checkpoint(tmp_path / "model"), path)
    with open_gguf(path) as file:
        assert file.integer("gemma-embedding.pooling_type") == number
        assert file.tensors["dense_2.weight"].shape == (32, 64)
        assert file.data("dense_2.weight").view(np.float32)[33] == 33


@pytest.mark.parametrize(
    ("pooling", "activation", "message"),
    [
        ({"pooling_mode_max_tokens": True}, IDENTITY, "pools by pooling_mode_max_tokens"),
        ({}, IDENTITY, "pools by nothing"),
        ({"pooling_mode_cls_token": True}, "torch.nn.Tanh", "a projection with Tanh"),
    ],
)
def test_what_gguf_has_no_word_for(
    tmp_path: Path, pooling: dict[str, Any], activation: str, message: str
) -> None:
    write_folder(tmp_path / "model", pooling, activation)
    with pytest.raises(EdgeLLMError, match=message):
        write_converted(open_checkpoint(tmp_path / "model"), tmp_path / "out.gguf")


def test_modules_stay_in_the_folder(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", {"pooling_mode_cls_token": True})
    outside = [{"type": "x.Pooling", "path": "../../other"}]
    (tmp_path / "model" / "modules.json").write_text(json.dumps(outside))
    with pytest.raises(EdgeLLMError, match="outside the folder"):
        write_converted(open_checkpoint(tmp_path / "model"), tmp_path / "out.gguf")
