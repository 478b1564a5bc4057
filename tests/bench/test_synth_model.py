"""The writer of random models: files that load, and numbers that stay in range. Small ones here."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import edgellm
from edgellm.gguf_loader import open_gguf

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "synth_model.py"
SIZES = {"HIDDEN": 256, "HEADS": 4, "KV_HEADS": 2, "FEED_FORWARD": 512, "VOCABULARY": 512}
TYPES = "Q4_K_M Q4_0 Q8_0 Q6_K Q5_K_M IQ4_XS IQ3_S Q2_K TQ2_0 MXFP4 F16".split()


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = spec_from_file_location("synth_model", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "synth_model", module)  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    for name, value in SIZES.items():
        monkeypatch.setattr(module, name, value)
    return module


def test_the_promised_types_are_there(script: ModuleType) -> None:
    assert sorted(script.MIXES) == sorted(TYPES)


@pytest.mark.parametrize("name", TYPES)
def test_a_small_one_runs(
    script: ModuleType, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "LAYERS", 2)
    script.write(tmp_path / "model.gguf", name)
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]
    with edgellm.load(tmp_path / "model.gguf", backend="reference", context_length=64) as model:
        assert model.detokenize(model.tokenize("The man")) == "The man"
        logits = model.logits([300, 7, 7, 41])
    assert np.isfinite(logits).all()
    assert 0.5 < logits.std() < 2


def test_half_of_the_layers_get_more_bits(script: ModuleType, tmp_path: Path) -> None:
    script.write(tmp_path / "model.gguf", "Q4_K_M")
    with open_gguf(tmp_path / "model.gguf") as file:
        types = {name: tensor.type_name for name, tensor in file.tensors.items()}
    downs = [types[f"blk.{layer}.ffn_down.weight"] for layer in range(16)]
    assert [layer for layer in range(16) if downs[layer] == "Q6_K"] == [0, 1, 4, 7, 10, 13, 14, 15]
    assert downs == [types[f"blk.{layer}.attn_v.weight"] for layer in range(16)]
    assert types["token_embd.weight"] == "Q6_K" and "output.weight" not in types
    assert {types[f"blk.{layer}.ffn_up.weight"] for layer in range(16)} == {"Q4_K"}
