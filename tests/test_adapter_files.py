"""Adapters from the words of an option to scaled requests."""

from pathlib import Path

import numpy as np
import pytest

import edgellm
from edgellm.adapter_files import open_adapters, parse_adapter
from edgellm.errors import GGUFError, RequestError
from edgellm.types import SamplingParams
from tests.models.recipes.parts import FF, HIDDEN, VOCAB
from tests.models.test_adapters import changes, write_lora
from tests.models.tiny import write_tiny

VOCABULARY = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", *(chr(65 + i) for i in range(VOCAB - 3))],
    "tokenizer.ggml.scores": np.zeros(VOCAB, np.float32),
    "tokenizer.ggml.token_type": np.array([2, 3, 3] + [1] * (VOCAB - 3), np.int32),
}


@pytest.mark.parametrize(
    ("text", "name", "path", "scale"),
    [
        ("style.gguf", "style", "style.gguf", 1.0),
        ("a/style.v2.gguf:0.5", "style.v2", "a/style.v2.gguf", 0.5),
        ("style.gguf:-1", "style", "style.gguf", -1.0),
        ("C:/x/style.gguf", "style", "C:/x/style.gguf", 1.0),
        ("odd:name.gguf:2", "odd:name", "odd:name.gguf", 2.0),
    ],
)
def test_a_file_and_its_scale(text: str, name: str, path: str, scale: float) -> None:
    info = parse_adapter(text)
    assert (info.name, info.path, info.scale) == (name, path, scale)


@pytest.mark.parametrize("text", ["style.gguf:nan", "style.gguf:inf", "style.gguf:1e9"])
def test_a_scale_is_a_sensible_number(text: str) -> None:
    with pytest.raises(RequestError, match="scale of adapter"):
        parse_adapter(text)


def test_names_are_the_files_own_and_differ(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="two adapters are named style"):
        open_adapters(["a/style.gguf", "b/style.gguf"], "llama")
    with pytest.raises(GGUFError, match="no such file"):
        open_adapters([str(tmp_path / "missing.gguf")], "llama")


def test_requests_scale_the_adapters_of_a_loaded_model(tmp_path: Path) -> None:
    pairs = changes(("blk.1.ffn_up.weight", (HIDDEN, FF)))
    lora = write_lora(tmp_path, "llama", pairs)
    path = write_tiny(tmp_path, "llama", lambda keys, _: keys.update(VOCABULARY))
    params = SamplingParams(temperature=0, max_tokens=12)
    with edgellm.load(path, backend="reference", adapters=[f"{lora}:3"]) as model:
        assert [adapter.name for adapter in model.info.adapters] == ["style"]
        changed = model.complete([1, 2, 3], params).token_ids
        assert model.complete([1, 2, 3], params, adapters={}).token_ids != changed
        assert model.complete([1, 2, 3], params, adapters={"style": 3.0}).token_ids == changed
        scored = model.logits([1, 2, 3])
        with pytest.raises(RequestError, match="has no adapter 'mood'; it has: style"):
            model.complete([1], params, adapters={"mood": 1.0})
    with edgellm.load(path, backend="reference") as model:
        assert np.abs(model.logits([1, 2, 3]) - scored).max() > 1e-2
