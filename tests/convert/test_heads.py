"""Heads that predict further tokens become layers behind the model's, under GGUF's names."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.convert.checkpoint import open_checkpoint
from edgellm.convert.heads import gguf_name
from edgellm.convert.write import Converted, write_converted
from edgellm.errors import GGUFError
from edgellm.gguf_loader import open_gguf
from tests.convert.checkpoints import Weights, save_safetensors, small_tokenizer
from tests.convert.golden import golden, weights_of
from tests.convert.test_golden import distance
from tests.models.running import logits_of

HIDDEN = 32
BEHIND = {  # what the head has beside a layer of the model
    "eh_proj.weight": (HIDDEN, 2 * HIDDEN),
    "enorm.weight": (HIDDEN,),
    "hnorm.weight": (HIDDEN,),
    "shared_head.norm.weight": (HIDDEN,),
}
BESIDE = {
    "mtp.fc.weight": (HIDDEN, 2 * HIDDEN),
    "mtp.pre_fc_norm_embedding.weight": (HIDDEN,),
    "mtp.pre_fc_norm_hidden.weight": (HIDDEN,),
    "mtp.norm.weight": (HIDDEN,),
}
NAMES = {
    *("blk.{}.nextn.eh_proj.weight", "blk.{}.nextn.enorm.weight", "blk.{}.nextn.hnorm.weight"),
    "blk.{}.nextn.shared_head_norm.weight",
}


def written(folder: Path, config: dict[str, Any], weights: Weights) -> tuple[Path, Converted]:
    source = folder / "model"
    source.mkdir()
    (source / "config.json").write_text(json.dumps(config))
    (source / "tokenizer.json").write_text(json.dumps(small_tokenizer()))
    save_safetensors(source / "model.safetensors", weights)
    return folder / "out.gguf", write_converted(open_checkpoint(source), folder / "out.gguf")


def with_head(name: str, beside: bool) -> tuple[dict[str, Any], Weights, int]:
    """A golden model with its last layer once more, as a head; how many layers it has without."""
    model = golden(name)
    layers = model.config["num_hidden_layers"]
    shapes = dict(model.shapes)
    last = f"model.layers.{layers - 1}."
    new = "mtp.layers.0." if beside else f"model.layers.{layers}."
    shapes |= {new + n.removeprefix(last): s for n, s in shapes.items() if n.startswith(last)}
    shapes |= BESIDE if beside else {new + n: shape for n, shape in BEHIND.items()}
    return {**model.config, "num_nextn_predict_layers": 1}, weights_of(shapes), layers


@pytest.mark.parametrize(
    ("name", "beside"),
    [("glm4-moe", False), ("deepseek3", False), ("qwen3-next", True), ("qwen3.5", True)],
)
def test_a_head_is_a_layer_behind(tmp_path: Path, name: str, beside: bool) -> None:
    config, weights, layers = with_head(name, beside)
    path, _ = written(tmp_path, config, weights)
    model = golden(name)
    with open_gguf(path) as file:
        prefix = file.string("general.architecture")
        assert file.integer(f"{prefix}.block_count") == layers + 1
        assert file.integer(f"{prefix}.nextn_predict_layers") == 1
        of_head = {n for n in file.tensors if n.startswith(f"blk.{layers}.")}
        last = f"blk.{layers - 1}."
        of_last = {n.replace(last, f"blk.{layers}.") for n in file.tensors if n.startswith(last)}
        assert of_head - of_last == {n.format(layers) for n in NAMES}
        got = file.data(f"blk.{layers}.nextn.enorm.weight").view("<f4")
    stored = weights[
        "mtp.pre_fc_norm_embedding.weight" if beside else f"model.layers.{layers}.enorm.weight"
    ]
    assert np.array_equal(got, stored + 1 if beside else stored)  # Qwen's are stored less one
    assert distance(logits_of(path, model.ids), model.rows) < 1e-9


def test_a_head_that_has_no_names_is_left_out_and_told(tmp_path: Path) -> None:
    config, weights, layers = with_head("glm4-moe", beside=False)
    odd = f"model.layers.{layers}.odd_part.weight"
    path, done = written(tmp_path, config, weights | {odd: np.zeros((4, 4), np.float32)})
    with open_gguf(path) as file:
        assert file.integer("glm4moe.block_count") == layers
        assert not any(name.startswith(f"blk.{layers}.") for name in file.tensors)
    assert sum(done.left_out.values()) == sum(f"layers.{layers}." in n for n in weights) + 1


def test_layers_beyond_those_that_settings_tell_of_are_refused(tmp_path: Path) -> None:
    config, weights, _ = with_head("glm4-moe", beside=False)
    with pytest.raises(GGUFError, match="has no place in glm4moe"):
        written(tmp_path, {**config, "num_nextn_predict_layers": 0}, weights)


def test_names_are_those_of_the_package_gguf() -> None:
    from gguf import MODEL_ARCH, get_tensor_name_map

    known = get_tensor_name_map(MODEL_ARCH.GLM4_MOE, 4)
    for part in (
        "eh_proj",
        "enorm",
        "hnorm",
        "embed_tokens",
        "shared_head.head",
        "shared_head.norm",
    ):
        name = f"model.layers.3.{part}.weight"
        assert gguf_name(name) == known.get_name(name, try_suffixes=(".weight",))
