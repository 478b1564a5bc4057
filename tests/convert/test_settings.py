"""Settings of config.json that nobody would write: refused with a message, whatever the family."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.convert.checkpoint import open_checkpoint
from edgellm.convert.plan import make_plan
from edgellm.convert.weight import Weight
from edgellm.errors import EdgeLLMError
from tests.convert.checkpoints import save_safetensors
from tests.convert.golden import golden
from tests.odd_values import ODD, each_changed

# One family for each way of reading settings; values of every kind take the place of one in turn.
FAMILIES = (
    "gemma3n",
    "glm4v",
    "mimo2",
    "qwen3-next",
    "deepseek3-yarn",
    "granite-hybrid",
    "phi3-long",
)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("family", FAMILIES)
def test_odd_settings_are_refused_or_mean_nothing(tmp_path: Path, family: str) -> None:
    model = golden(family)
    zeros = {name: np.zeros(shape, np.float32) for name, shape in model.shapes.items()}
    save_safetensors(tmp_path / "model.safetensors", zeros)
    refused = 0
    for _, _, config in each_changed(model.config, share=len(ODD)):
        (tmp_path / "config.json").write_text(json.dumps(config))
        try:
            make_plan(open_checkpoint(tmp_path), lambda name, weight: "F32")
        except EdgeLLMError as error:
            assert str(tmp_path) in str(error)
            refused += 1
    assert refused


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            {"num_hidden_layers": 1 << 30},
            "num_hidden_layers is '1073741824', expected at most 8192",
        ),
        ({"head_dim": 1 << 30}, "head_dim is '1073741824', expected at most"),
        ({"num_attention_heads": 1 << 20, "head_dim": None}, "num_attention_heads is '1048576'"),
        ({"rope_parameters": {"partial_rotary_factor": 1e308}}, "a share of a head"),
        ({"layer_types": 3, "architectures": 3}, "model of no architecture"),
        ({"rope_parameters": {"rope_theta": 1 << 1100}}, "rope_theta is '1358.*expected a number"),
    ],
)
def test_numbers_without_bounds(tmp_path: Path, setting: dict[str, Any], message: str) -> None:
    model = golden("qwen3")
    zeros = {name: np.zeros(shape, np.float32) for name, shape in model.shapes.items()}
    save_safetensors(tmp_path / "model.safetensors", zeros)
    (tmp_path / "config.json").write_text(json.dumps(model.config | setting))
    with pytest.raises(EdgeLLMError, match=message):
        make_plan(open_checkpoint(tmp_path), lambda name, weight: "F32")


@pytest.mark.parametrize(
    ("family", "setting", "message"),
    [
        ("hunyuan-moe", {"moe_topk": {"a": 1}}, "moe_topk is .*, expected a whole number"),
        ("hunyuan-moe", {"moe_topk": [2, "x"]}, "moe_topk is 'x', expected a whole number"),
        (
            "granite-moe-swa",
            {"layer_rope_theta": [[1]]},
            r"layer_rope_theta is '\[1\]', expected a",
        ),
        ("bloom", {"n_head": 7}, "does not fit the others"),
    ],
)
def test_lists_have_the_kind_that_is_read(
    tmp_path: Path, family: str, setting: dict[str, Any], message: str
) -> None:
    model = golden(family)
    zeros = {name: np.zeros(shape, np.float32) for name, shape in model.shapes.items()}
    save_safetensors(tmp_path / "model.safetensors", zeros)
    (tmp_path / "config.json").write_text(json.dumps(model.config | setting))
    with pytest.raises(EdgeLLMError, match=message):
        make_plan(open_checkpoint(tmp_path), lambda name, weight: "F32")


def test_a_fault_of_ours_is_not_taken_for_a_setting(tmp_path: Path) -> None:
    model = golden("qwen3")
    zeros = {name: np.zeros(shape, np.float32) for name, shape in model.shapes.items()}
    save_safetensors(tmp_path / "model.safetensors", zeros)
    (tmp_path / "config.json").write_text(json.dumps(model.config))

    def faulty(name: str, weight: Weight) -> str:
        raise TypeError

    with pytest.raises(TypeError):
        make_plan(open_checkpoint(tmp_path), faulty)


@pytest.mark.parametrize(
    "text", ["", "{", "3", "[]", '{"a":' * 1000, "[" * 100000, '"\\ud800"', "\x00", "{} {}"]
)
def test_files_that_are_no_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    save_safetensors(tmp_path / "model.safetensors", {"a": np.zeros(2, np.float32)})
    with pytest.raises(EdgeLLMError, match=r"config\.json: (is no JSON|holds no object)"):
        open_checkpoint(tmp_path)
