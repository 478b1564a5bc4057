"""Checkpoints that nobody would write: refused at once, with a message that names what is wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.convert.checkpoint import open_checkpoint
from edgellm.convert.plan import make_plan
from edgellm.convert.write import write_converted
from edgellm.errors import EdgeLLMError
from edgellm.gguf_loader import open_gguf
from tests.convert.checkpoints import Raw, save_safetensors, small_tokenizer
from tests.convert.golden import golden

MATRIX = "model.layers.0.mlp.gate_proj.weight"


def folder_of(folder: Path, family: str, config: dict[str, Any], **tensors: Any) -> Path:
    """A golden model of zeros with other settings, and other tensors."""
    model = golden(family)
    zeros = {name: np.zeros(shape, np.float32) for name, shape in model.shapes.items()}
    save_safetensors(folder / "model.safetensors", zeros | tensors)
    (folder / "config.json").write_text(json.dumps(model.config | config))
    (folder / "tokenizer.json").write_text(json.dumps(small_tokenizer()))
    return folder


def plan(folder: Path) -> None:
    make_plan(open_checkpoint(folder), lambda name, weight: "F32")


@pytest.mark.parametrize(
    ("family", "name", "message"),
    [
        (
            "mixtral",
            "model.layers.0.block_sparse_moe.experts.9000000000000.w1.weight",
            r"expert \d+ of 9000000000001 is missing",
        ),
        (
            "qwen3-next",
            "mtp.layers.9000000000000.self_attn.q_proj.weight",
            "is of head 9000000000001, expected at most",
        ),
    ],
)
def test_numbers_in_names_cost_nothing(
    tmp_path: Path, family: str, name: str, message: str
) -> None:
    folder_of(tmp_path, family, {}, **{name: np.zeros((4, 32), np.float32)})
    with pytest.raises(EdgeLLMError, match=message):
        plan(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quant_method": []}, r"is quantised by \[\], which is not known"),
        ({"quant_method": "compressed-tensors", "format": ["a"]}, "has format .*expected one of"),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"a": {"format": {"b": 1}}}},
            "has format .*expected one of",
        ),
        ({"quant_method": "fp8", "weight_block_size": 5}, "has weight_block_size '5'"),
        ({"quant_method": "fp8", "weight_block_size": ["a", 1]}, "expected two whole numbers"),
        ({"quant_method": "fp8", "weight_block_size": [0, 1]}, "expected two whole numbers"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "expected two whole numbers"),
    ],
)
def test_settings_of_quantisation_have_their_kinds(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    codes = Raw("F8_E4M3", np.zeros(golden("qwen3").shapes[MATRIX], np.uint8))
    scales = {f"{MATRIX}_scale_inv": np.ones((1, 3), np.float32)}
    folder_of(tmp_path, "qwen3", {"quantization_config": settings}, **{MATRIX: codes}, **scales)
    with pytest.raises(EdgeLLMError, match=message):
        plan(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "tekken.json",
            {
                "config": {"default_num_special_tokens": 10**12, "default_vocab_size": 10**13},
                "vocab": [{"rank": 0, "token_bytes": "YQ=="}],
            },
            "has 1000000000000 special tokens, expected at most",
        ),
        ("tokenizer.json", {"model": {"type": [], "vocab": {}}}, r"of the kind '\[\]'"),
        ("tokenizer_config.json", {"chat_template": "\ud800"}, "chat_template.*surrogates"),
        ("modules.json", [{"type": "a.Pooling", "path": "../other"}], "outside the folder"),
    ],
)
def test_files_beside_the_weights(tmp_path: Path, name: str, content: Any, message: str) -> None:
    folder_of(tmp_path, "qwen3", {})
    if name == "tekken.json":
        (tmp_path / "tokenizer.json").unlink()
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(EdgeLLMError, match=message):
        write_converted(open_checkpoint(tmp_path), tmp_path / "out.gguf")


def test_advice_that_no_key_holds_is_left_out(tmp_path: Path) -> None:
    advice = {"top_k": 10**400, "temperature": 1e300, "top_p": 0.5}
    folder_of(tmp_path, "qwen3", {})
    (tmp_path / "generation_config.json").write_text(json.dumps(advice))
    write_converted(open_checkpoint(tmp_path), tmp_path / "out.gguf")
    with open_gguf(tmp_path / "out.gguf") as file:
        given = {key for key in file.metadata if key.startswith("general.sampling.")}
    assert given == {"general.sampling.top_p"}
