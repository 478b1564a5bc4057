"""BitNet: the names and keys that tell its kinds apart, and weights of three values."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.convert.checkpoint import open_checkpoint
from edgellm.convert.write import write_converted
from edgellm.gguf_loader import open_gguf
from edgellm.kernels.formats import by_name, dequantize_rows
from tests.convert.checkpoints import Weights, save_safetensors, small_tokenizer
from tests.convert.golden import golden, weights_of
from tests.convert.packing import bitnet

KIND = "BitnetForCausalLM"  # of the first models, whose activation is SiLU
NAMES = {"attn_sub_norm": "inner_attn_ln", "ffn_sub_norm": "ffn_layernorm"}


def converted(folder: Path, config: dict[str, Any], weights: Weights) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(small_tokenizer()))
    save_safetensors(folder / "model.safetensors", weights)
    write_converted(open_checkpoint(folder), folder / "out.gguf")
    return folder / "out.gguf"


def older(name: str) -> str:
    for new, old in NAMES.items():
        name = name.replace(new, old)
    return name


@pytest.mark.parametrize(
    ("name", "architecture", "activation"),
    [
        ("bitnet", "bitnet", None),
        ("bitnet-relu", "bitnet", "relu"),
        ("bitnet-relu2", "bitnet-b1.58", None),
    ],
)
def test_files_say_what_their_activation_is(
    tmp_path: Path, name: str, architecture: str, activation: str | None
) -> None:
    model = golden(name)
    path = converted(tmp_path / "model", model.config, weights_of(model.shapes))
    with open_gguf(path) as file:
        assert file.metadata["general.architecture"] == architecture
        assert file.metadata.get(f"{architecture}.hidden_activation") == activation


def test_weights_as_trained_become_those_that_the_model_uses(tmp_path: Path) -> None:
    model = golden("bitnet")
    weights = weights_of(model.shapes)
    rounded = {}
    for name, values in weights.items():
        mean = np.abs(values).mean(dtype=np.float64)
        rounds = name.endswith("_proj.weight")
        nearest = np.clip(np.round(values / mean), -1, 1) * mean
        rounded[name] = nearest.astype(np.float32) if rounds else values
    plain = converted(tmp_path / "plain", model.config, rounded)
    latent = converted(
        tmp_path / "latent",
        model.config | {"architectures": [KIND]},
        {older(name): values for name, values in weights.items()},
    )
    with open_gguf(plain) as want, open_gguf(latent) as got:
        assert want.tensors.keys() == got.tensors.keys()
        for info in got.tensors.values():
            values = [
                dequantize_rows(
                    by_name(file.tensors[info.name].type_name),
                    file.data(info.name).reshape(info.rows, -1),
                )
                for file in (want, got)
            ]
            np.testing.assert_allclose(values[1], values[0], rtol=2**-11)


def test_three_values_are_stored_in_two_bits_each(tmp_path: Path) -> None:
    """Where rows are whole blocks of the type, which holds them exactly."""
    model, rng = golden("bitnet-relu2"), np.random.default_rng(2)
    width = 256
    config = {
        **model.config,
        **{"hidden_size": width, "intermediate_size": width, "num_key_value_heads": 4},
        "quantization_config": {"quant_method": "bitnet", "linear_class": "autobitlinear"},
    }
    tensors: dict[str, Any] = {}
    values = {}
    for name, shape in model.shapes.items():
        if not name.endswith("_proj.weight"):
            shape = (shape[0], width) if len(shape) > 1 else (width,)
            tensors |= weights_of({name: shape})
            continue
        made = bitnet(width, width, rng, divides=False)
        half = made.tensors["weight_scale"].astype(np.float16)  # type: ignore[union-attr]
        prefix = name.removesuffix(".weight")
        tensors |= {name: made.tensors["weight"], f"{prefix}.weight_scale": half}
        values[prefix] = np.sign(made.values) * half.astype(np.float32)
    with open_gguf(converted(tmp_path / "model", config, tensors)) as file:
        for short, long in (("attn_q", "self_attn.q_proj"), ("ffn_down", "mlp.down_proj")):
            info = file.tensors[f"blk.1.{short}.weight"]
            assert info.type_name == "TQ2_0"
            got = dequantize_rows(by_name("TQ2_0"), file.data(info.name).reshape(info.rows, -1))
            assert np.array_equal(got, values[f"model.layers.1.{long}"])
