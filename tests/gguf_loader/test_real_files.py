"""Files of others: the same metadata and tensors as gguf-py reads."""

import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from edgellm.gguf_loader import StringArray, open_gguf

FILES = ("archs/gemma3-dense", "archs/gpt-oss-moe", "archs/lfm2-dense", "quants/IQ1_M")


def plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, StringArray) else value


@pytest.mark.parametrize("name", FILES)
def test_same_as_gguf_py(oracle: Path, name: str) -> None:
    path = oracle / f"{name}.gguf"
    theirs = gguf.GGUFReader(path)
    with open_gguf(path) as ours:
        fields = {
            key: field.contents()
            for key, field in theirs.fields.items()
            if not key.startswith("GGUF.")
        }
        assert {key: plain(value) for key, value in ours.metadata.items()} == fields
        assert list(ours.tensors) == [tensor.name for tensor in theirs.tensors]
        for tensor in theirs.tensors:
            info = ours.tensors[tensor.name]
            assert info.shape == tuple(tensor.shape.tolist())
            assert info.type_id == tensor.tensor_type.value
            assert info.offset == tensor.data_offset
            assert ours.data(tensor.name).tobytes() == tensor.data.tobytes()


@pytest.mark.parametrize("byte_order", ["little", "big"])
def test_reads_what_gguf_py_writes(tmp_path: Path, byte_order: str) -> None:
    path = tmp_path / "a.gguf"
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    writer = gguf.GGUFWriter(path, "llama", endianess=gguf.GGUFEndian[byte_order.upper()])
    writer.add_block_count(2)
    writer.add_token_list(["a", "bc"])
    writer.add_token_scores([0.5, -1.0])
    writer.add_custom_alignment(64)
    writer.add_tensor("w", weights.copy())  # which it swaps in place for big-endian
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with open_gguf(path) as file:
        assert (file.byte_order, file.alignment) == (byte_order, 64)
        assert file.integer("llama.block_count") == 2
        assert plain(file.metadata["tokenizer.ggml.tokens"]) == ["a", "bc"]
        assert plain(file.metadata["tokenizer.ggml.scores"]) == [0.5, -1.0]
        assert file.tensors["w"].shape == (4, 3)
        assert file.data("w").view(np.float32).tolist() == weights.ravel().tolist()


def test_every_oracle_file_opens(oracle: Path) -> None:
    paths = sorted(oracle.glob("*/*.gguf"))
    assert len(paths) > 80
    for path in paths:
        with open_gguf(path) as file:
            assert file.num_parameters > 0


@pytest.mark.weights
def test_smollm2(smollm2: Path) -> None:
    with open_gguf(smollm2) as file:
        tokens = file.strings("tokenizer.ggml.tokens")
        assert tokens is not None
        assert (len(tokens), tokens[1]) == (49152, "<|im_start|>")
        assert file.num_parameters == 134_515_008


@pytest.mark.weights
def test_opening_copies_no_tensor(smollm2: Path) -> None:
    tracemalloc.start()
    try:
        with open_gguf(smollm2) as file:
            assert file.data("token_embd.weight").size > 10 << 20
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20
