"""Converted checkpoints compute what `transformers` computes of them, for every family it has."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgellm.convert.checkpoint import open_checkpoint
from edgellm.convert.families import FAMILIES
from edgellm.convert.write import write_converted
from edgellm.gguf_loader import open_gguf
from edgellm.models import read_config
from edgellm.models.pooled_head import read_pooled_head
from edgellm.models.registry import architecture
from tests.convert.checkpoints import save_safetensors, small_tokenizer
from tests.convert.golden import NAMES, Golden, golden, weights_of
from tests.convert.written import NAMES as WRITTEN
from tests.models.running import hidden_of, logits_of


def converted(folder: Path, model: Golden, dtype: str = "F32") -> Path:
    """The GGUF file of a golden checkpoint."""
    source = folder / "model"
    source.mkdir()
    (source / "config.json").write_text(json.dumps(model.config))
    (source / "tokenizer.json").write_text(json.dumps(small_tokenizer()))
    save_safetensors(source / "model.safetensors", weights_of(model.shapes), dtype)
    path = folder / "out.gguf"
    write_converted(open_checkpoint(source), path)
    return path


def distance(got: np.ndarray, want: np.ndarray) -> float:
    """Squared error over squared magnitude."""
    wide = want.astype(np.float64)
    return float(((got - wide) ** 2).sum() / (wide**2).sum())


def scores_of(path: Path, hidden: np.ndarray) -> np.ndarray:
    """What the file's head makes of rows: of the first, or of their mean."""
    with open_gguf(path) as file:
        config = read_config(file)
        head = read_pooled_head(file, config)
    assert config.pooling == "rank" and head.rank_pooling in ("cls", "mean")
    row = hidden[0] if head.rank_pooling == "cls" else hidden.mean(axis=0)
    return head.classify(row.astype(np.float64))


def tolerance(path: Path, name: str) -> float:
    """Some activations are rounded to halves on the way, as in ggml. GGUF has one epsilon for all
    norms, and Falcon's Mamba two."""
    if name == "falcon-mamba":
        return 1e-7
    with open_gguf(path) as file:
        row = architecture(file.string("general.architecture") or "")
    return 5e-6 if row.activation.startswith("gelu") else 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_transformers(tmp_path: Path, name: str) -> None:
    model = golden(name)
    path = converted(tmp_path, model)
    got = logits_of(path, model.ids) if model.kind == "logits" else hidden_of(path, [model.ids])[0]
    if model.kind == "scores":
        got = scores_of(path, got)
    assert distance(got, model.rows) < tolerance(path, name)


def test_the_encoder_of_a_t5_is_converted_alone(tmp_path: Path) -> None:
    model = golden("t5-encoder")
    config = model.config | {"architectures": ["T5ForConditionalGeneration"]}
    decoder = {"decoder.block.0.layer.0.SelfAttention.q.weight": (32, 32)}
    whole = replace(model, config=config, shapes=model.shapes | decoder)
    path = converted(tmp_path, whole)
    assert distance(hidden_of(path, [model.ids])[0], model.rows) < tolerance(path, "t5-encoder")


# Not in `transformers` (test_like_llama.py, test_written.py).
_UNTESTED = {
    *("ExaoneForCausalLM", "InternLM2ForCausalLM", "MiniCPMForCausalLM"),
    *("BaichuanForCausalLM", "BaiChuanForCausalLM", "Exaone4_5_ForConditionalGeneration"),
    *("XverseForCausalLM", "OrionForCausalLM", "PanguEmbeddedForCausalLM"),
    *("LlamaBidirectionalModel", "DeepseekForCausalLM", "BailingMoeForCausalLM"),
    *("BailingMoeV2ForCausalLM", "QWenLMHeadModel", "ChatGLMModel"),
    *("SarvamMoEForCausalLM", "KORMoForCausalLM", "JinaEmbeddingsV5Model", "BitnetForCausalLM"),
    "ChatGLMForConditionalGeneration",
    "PlamoForCausalLM",
    *("T5ForConditionalGeneration", "MT5ForConditionalGeneration", "UMT5ForConditionalGeneration"),
}


def test_every_kind_is_tested() -> None:
    kinds = {golden(name).config["architectures"][0] for name in NAMES} | set(WRITTEN)
    tested = [FAMILIES[kind] for kind in kinds]
    others = {kind for kind, row in FAMILIES.items() if all(row is not one for one in tested)}
    assert others == _UNTESTED
