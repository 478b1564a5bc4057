"""Converted checkpoints compute what the published code computes, and bad ones are named."""

import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.convert.checkpoint import open_checkpoint
from edgellm.convert.write import write_converted
from edgellm.errors import EdgeLLMError
from edgellm.gguf_loader import open_gguf
from tests.convert.checkpoints import (
    CONFIGS,
    HIDDEN,
    LAYERS,
    Weights,
    forward,
    random_weights,
    save_safetensors,
    write_checkpoint,
)
from tests.convert.golden import golden, weights_of
from tests.models.running import logits_of

IDS = [257, 72, 105, 261, 262, 3, 4, 100, 200, 50, 7, 8, 9, 10, 11, 12]


def converted(folder: Path, *args: Any, **options: Any) -> Path:
    path = folder.parent / "out.gguf"
    write_converted(open_checkpoint(folder), path, *args, **options)
    return path


def tolerance(kind: str) -> float:
    """Gemma's activation is rounded to halves on the way, as in ggml."""
    return 2e-3 if kind.startswith("Gemma") else 1e-4


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_logits_are_the_checkpoints(tmp_path: Path, kind: str, dtype: str) -> None:
    more = {"num_hidden_layers": 7} if kind.startswith("Gemma3") else {}  # one layer sees all
    config = {**CONFIGS[kind], **more}
    weights = random_weights(kind, config)
    if dtype == "BF16":
        weights = {n: (v.view(np.uint32) & 0xFFFF0000).view(np.float32) for n, v in weights.items()}
    write_checkpoint(tmp_path / "model", kind, config, weights, dtype, shards=3)
    path = converted(tmp_path / "model")
    want = forward(kind, weights, IDS, config)
    got = logits_of(path, IDS)
    assert np.abs(got - want).max() < tolerance(kind) * np.abs(want).max()
    with open_gguf(path) as file:
        assert file.tensors["blk.0.attn_q.weight"].type_name == dtype
        assert file.tensors["blk.0.attn_norm.weight"].type_name == "F32"


def test_pictures_are_left_out(tmp_path: Path) -> None:
    text = CONFIGS["Gemma3ForCausalLM"]
    plain = random_weights("Gemma3ForCausalLM", text)
    weights: Weights = {f"language_model.{name}": values for name, values in plain.items()}
    weights["vision_tower.x.weight"] = np.zeros((2, 2), np.float32)
    folder = tmp_path / "model"
    write_checkpoint(folder, "Gemma3ForCausalLM", None, weights)
    whole = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": text}
    (folder / "config.json").write_text(json.dumps(whole))
    want = forward("Gemma3ForCausalLM", plain, IDS, text)
    got = logits_of(converted(folder), IDS)
    assert np.abs(got - want).max() < tolerance("Gemma3ForCausalLM") * np.abs(want).max()


@pytest.mark.parametrize("type_name", ["F32", "F16", "BF16", "Q8_0"])
def test_types(tmp_path: Path, type_name: str) -> None:
    write_checkpoint(tmp_path / "model", "LlamaForCausalLM")
    with open_gguf(converted(tmp_path / "model", type_name)) as file:
        tensor = file.tensors["blk.0.attn_q.weight"]
        assert tensor.type_name == type_name and tensor.columns == HIDDEN


def test_llama3_stretches_long_waves_alone(tmp_path: Path) -> None:
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}
    scaling |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 32}
    write_checkpoint(tmp_path / "model", "LlamaForCausalLM", {"rope_scaling": scaling})
    with open_gguf(converted(tmp_path / "model")) as file:
        factors = file.data("rope_freqs.weight").view(np.float32)
    waves = 2 * np.pi * 10000.0 ** (np.arange(0, 16, 2) / 16)
    assert (factors[waves < 32 / 4] == 1).all()
    np.testing.assert_allclose(factors[waves > 32], 8, rtol=1e-6)
    between = factors[(waves > 8) & (waves < 32)]
    assert len(between) and ((between > 1) & (between < 8)).all()


def test_yarn_becomes_keys(tmp_path: Path) -> None:
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
    write_checkpoint(tmp_path / "model", "Qwen3ForCausalLM", {"rope_scaling": scaling})
    with open_gguf(converted(tmp_path / "model")) as file:
        assert file.string("qwen3.rope.scaling.type") == "yarn"
        assert file.number("qwen3.rope.scaling.factor") == 4
        assert file.integer("qwen3.rope.scaling.original_context_length") == 16


Break = Callable[[Path, Weights], object]


def _without(name: str) -> Break:
    def change(folder: Path, weights: Weights) -> None:
        del weights[name]
        save_safetensors(folder / "model.safetensors", weights)

    return change


def _with(name: str, shape: tuple[int, ...]) -> Break:
    def change(folder: Path, weights: Weights) -> None:
        weights[name] = np.zeros(shape, np.float32)
        save_safetensors(folder / "model.safetensors", weights)

    return change


def _config(**changes: Any) -> Break:
    def change(folder: Path, weights: Weights) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def _config_without_output(folder: Path, weights: Weights) -> None:
    _config(tie_word_embeddings=False)(folder, weights)
    _without("lm_head.weight")(folder, weights)


def _pickled(folder: Path, weights: Weights) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


BROKEN: dict[str, tuple[Break, str]] = {
    "missing": (_without("model.layers.1.mlp.up_proj.weight"), "blk.1.ffn_up.weight"),
    "no norm": (_without("model.norm.weight"), "output_norm.weight"),
    "shape": (
        _with("model.layers.0.self_attn.k_proj.weight", (8, 8)),
        r"\(8, 8\): expected 32 rows",
    ),
    "unknown": (_with("model.layers.0.what.weight", (8, 8)), "'model.layers.0.what.weight' has no"),
    "pickle": (_pickled, "pickle files alone"),
    "no output": (_config_without_output, r"output.weight \(lm_head.weight\) is missing"),
    "kind": (_config(architectures=["PalmForCausalLM"]), "PalmForCausalLM.*cannot be converted"),
    "no kind": (_config(architectures=None), "cannot be converted"),
    "quantised": (_config(quantization_config={"quant_method": "aqlm"}), "quantised by 'aqlm'"),
    "no layers": (_config(num_hidden_layers=None), "num_hidden_layers is missing"),
    "text": (_config(hidden_size="32"), "hidden_size is '32', expected a whole number"),
    "rope": (_config(rope_scaling={"type": "ntk"}), "expected linear, dynamic, yarn, longrope"),
    "no config": (lambda folder, w: (folder / "config.json").unlink(), "config.json: there is no"),
    "no words": (lambda folder, w: (folder / "tokenizer.json").unlink(), "no tokenizer.json"),
    "not JSON": (lambda folder, w: (folder / "config.json").write_text("{"), "is no JSON"),
    "nothing": (lambda folder, w: (folder / "model.safetensors").unlink(), "there is no model"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_named_and_nothing_is_left(tmp_path: Path, name: str) -> None:
    change, message = BROKEN[name]
    weights = write_checkpoint(tmp_path / "model", "LlamaForCausalLM")
    change(tmp_path / "model", weights)
    with pytest.raises(EdgeLLMError, match=message):
        converted(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model", "LlamaForCausalLM", shards=LAYERS + 1)
    (tmp_path / "model" / "model-1.safetensors").unlink()
    with pytest.raises(EdgeLLMError, match=r"1 of 3 files are missing: model-1\.safetensors"):
        converted(tmp_path / "model")


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ({"x": "../model.safetensors"}, "outside the folder"),
        ({"x": "model.safetensors"}, "lacks the tensor 'x'"),
        (None, "no weight_map"),
    ],
)
def test_a_wrong_index(tmp_path: Path, places: object, message: str) -> None:
    write_checkpoint(tmp_path / "model", "LlamaForCausalLM")
    index = tmp_path / "model" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    with pytest.raises(EdgeLLMError, match=message):
        converted(tmp_path / "model")


def test_numbers_that_do_not_fit_leave_nothing(tmp_path: Path) -> None:
    config = CONFIGS["LlamaForCausalLM"]
    weights = random_weights("LlamaForCausalLM", config)
    weights["model.layers.1.mlp.down_proj.weight"][0, 0] = 1e6
    write_checkpoint(tmp_path / "model", "LlamaForCausalLM", None, weights)
    with pytest.raises(EdgeLLMError, match=r"blk\.1\.ffn_down.*take BF16"):
        converted(tmp_path / "model", "F16")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_shards_without_an_index(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_checkpoint(folder, "LlamaForCausalLM", shards=2)
    (folder / "model.safetensors.index.json").unlink()
    for i in range(2):
        (folder / f"model-{i}.safetensors").rename(
            folder / f"model-{i + 1:05}-of-00002.safetensors"
        )
    assert converted(folder).exists()
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(EdgeLLMError, match=r"1 of 2 files are missing: model-00002-of-00002"):
        converted(folder, replace=True)


def test_a_tensor_in_two_shards_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    weights = write_checkpoint(folder, "LlamaForCausalLM", shards=2)
    first, name = folder / "model-0.safetensors", "model.norm.weight"
    held = {n: v for i, (n, v) in enumerate(weights.items()) if i % 2 == 0 or n == name}
    save_safetensors(first, held)
    with pytest.raises(EdgeLLMError, match="has the tensor 'model.norm.weight', as"):
        converted(folder)


def test_an_expert_that_is_missing_is_named(tmp_path: Path) -> None:
    model = golden("mixtral")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(model.config))
    weights = weights_of(model.shapes)
    del weights["model.layers.1.block_sparse_moe.experts.2.w3.weight"]
    save_safetensors(folder / "model.safetensors", weights)
    with pytest.raises(EdgeLLMError, match=r"expert 2 of 4 is missing \(blk\.1\.ffn_up_exps"):
        converted(folder)


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model", "LlamaForCausalLM")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(done: int, total: int, name: str) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60000, hard))

    try:
        with pytest.raises(EdgeLLMError, match=r"out\.gguf: cannot be written: .* \(in blk\.0\."):
            converted(tmp_path / "model", watch=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
