"""Files that must be refused, each with a message that names what is wrong."""

import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGML_TYPES, REMOVED_TYPES, open_gguf
from tests import gguf_writer as w

METADATA = {"general.architecture": "llama", "k": w.uint32(1), "list": ["a", "b"]}
TENSORS: list[w.Tensor] = [
    ("a", (32, 2), w.Q8_0, bytes(68)),
    ("b", (8,), w.F32, bytes(32)),
]


def refused(path: Path, data: bytes) -> str:
    """The message with which these bytes are refused, without the path that it begins with."""
    path.write_bytes(data)
    with pytest.raises(GGUFError) as caught:
        open_gguf(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def built(**metadata: object) -> bytes:
    return w.build_gguf(metadata, TENSORS).data


def header(tensors: int, keys: int, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys)


OTHER_FILES = {
    "nothing": (b"", "the file is empty"),
    "three bytes": (b"GGU", "not a GGUF file: it begins with b'GGU'"),
    "magic only": (b"GGUF", "the GGUF header needs 24 bytes"),
    "a short header": (header(0, 0)[:23], "the GGUF header needs 24 bytes"),
    "zip": (b"PK\x03\x04" + bytes(30), "a zip archive"),
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
    "html": (b"<!DOCTYPE html>", "a web page"),
    "ggml": (b"lmgg" + bytes(30), "old GGML file"),
    "safetensors": (struct.pack("<Q", 9) + b'{"a": {}}', "safetensors"),
    "text": (b"hello world", "not a GGUF file"),
    "version 0": (header(0, 0, 0), "version 0 is not known"),
    "version 1": (header(0, 0, 1), "version 1 is no longer supported"),
    "version 4": (header(0, 0, 4), "version 4 is not known, expected 2 or 3"),
    "version 1, big-endian": (header(0, 0, 1 << 24), "version 1 is no longer supported"),
    "version 2**31": (header(0, 0, 1 << 31), "version 128 is not known"),
    "2**63 tensors": (header(1 << 63, 0), "claims 9223372036854775808 tensors"),
    "2**64-1 keys": (header(0, (1 << 64) - 1), "claims 18446744073709551615 keys"),
    "the other byte order": (
        b"GGUF" + struct.pack("<I", 3) + struct.pack(">QQ", 0, 1) + bytes(40),
        "or not little-endian as its version number says",
    ),
    "36 bytes, a key of 2**63-1": (
        header(0, 1) + struct.pack("<QI", (1 << 63) - 1, 0),
        "the name of key 1 needs 9223372036854775807 bytes",
    ),
}


@pytest.mark.parametrize("name", OTHER_FILES)
def test_not_a_gguf_file(tmp_path: Path, name: str) -> None:
    data, said = OTHER_FILES[name]
    assert said in refused(tmp_path / "x.gguf", data)


def test_count_of_2_to_30_in_160_bytes(tmp_path: Path) -> None:
    for element in range(13):
        image = w.build_gguf({"numbers": w.array(element, [])}).patch("numbers count", "Q", 1 << 30)
        data = image.data.ljust(160, b"\0")
        assert "claims 1073741824 elements of the array 'numbers'" in refused(tmp_path / "x", data)


Patch = tuple[str, str, int]

# Where the file of METADATA and TENSORS is changed -> what is said.
PATCHES: dict[str, tuple[Patch, str]] = {
    "key type": (("k type", "I", 13), "key 'k' has the unknown type 13"),
    "element type": (("list element type", "I", 99), "key 'list' is an array of the unknown"),
    "string length": (("list[1]", "Q", 1 << 40), "strings of key 'list' run past the end"),
    "string length 2**63": (("list[0]", "Q", 1 << 63), "strings of key 'list' run past"),
    "string length 2**64-1": (("list[1]", "Q", (1 << 64) - 1), "strings of key 'list' run past"),
    "string length that wraps": (("list[0]", "Q", (1 << 64) - 8), "key 'list' run past"),
    "array count": (("list count", "Q", 1 << 60), "claims 1152921504606846976 elements"),
    "scalar string": (("general.architecture value", "Q", 1 << 50), "key 'general.architecture'"),
    "dimension 0": (("b shape[0]", "Q", 0), "tensor 'b' has a dimension of 0"),
    "dimension 2**42+1": (("b shape[0]", "Q", (1 << 42) + 1), "dimension of 4398046511105"),
    "dimension 2**63": (("a shape[1]", "Q", 1 << 63), "tensor 'a' has a dimension of 92233"),
    "rows past the end": (("a shape[1]", "Q", (1 << 31) - 1), "tensor 'a' ends at byte 7301444"),
    "five dimensions": (("a dimensions", "I", 5), "tensor 'a' has 5 dimensions"),
    "a partial block": (("a shape[0]", "Q", 33), "tensor 'a' has rows of 33 weights"),
    "type 43": (("a type", "I", 43), "tensor 'a' has the unknown type id 43"),
    "type 2**32-1": (("a type", "I", (1 << 32) - 1), "unknown type id 4294967295"),
    "offset not aligned": (("b offset", "Q", 97), "tensor 'b' is at offset 97, expected a mult"),
    "offset past the end": (("b offset", "Q", 1 << 40), "tensor 'b' ends at byte 10995116"),
    "offset that wraps": (("b offset", "Q", (1 << 64) - 32), "tensor 'b' ends at byte 18446"),
    "overlap": (("b offset", "Q", 64), "tensors 'a' and 'b' overlap"),
    "the same place": (("b offset", "Q", 0), "overlap"),
}


@pytest.mark.parametrize("name", PATCHES)
@pytest.mark.parametrize("byte_order", ["little", "big"])
def test_one_wrong_number(tmp_path: Path, byte_order: w.ByteOrder, name: str) -> None:
    (label, code, value), said = PATCHES[name]
    image = w.build_gguf(METADATA, TENSORS, byte_order=byte_order)
    good = tmp_path / "good.gguf"
    good.write_bytes(image.data)
    assert list(open_gguf(good).tensors) == ["a", "b"]
    assert said in refused(tmp_path / "bad.gguf", image.patch(label, code, value).data)


@pytest.mark.parametrize("type_id", sorted(REMOVED_TYPES))
def test_removed_types_are_refused_by_name(tmp_path: Path, type_id: int) -> None:
    name, instead = REMOVED_TYPES[type_id]
    data = w.build_gguf({}, TENSORS).patch("a type", "I", type_id).data
    said = refused(tmp_path / "x", data)
    assert f"tensor 'a' has the type {name} (id {type_id})" in said
    assert f"use a {instead} file" in said


@pytest.mark.parametrize("type_id", sorted(GGML_TYPES))
def test_one_byte_past_the_end(tmp_path: Path, type_id: int) -> None:
    kind = GGML_TYPES[type_id]
    tensors = [("t", (kind.block_size * 3, 2), type_id, bytes(kind.type_size * 6))]
    image = w.build_gguf({}, tensors)
    end = image.marks["t data"] + kind.type_size * 6
    path = tmp_path / "x"
    path.write_bytes(image.data[:end])  # the last tensor needs no padding
    assert open_gguf(path).tensors["t"].nbytes == kind.type_size * 6
    assert f"tensor 't' ends at byte {end} and the file has {end - 1}" in refused(
        path, image.data[: end - 1]
    )


@pytest.mark.parametrize(
    ("alignment", "said"),
    [
        (w.uint32(0), "is 0, expected a power of two from 8 to 2097152"),
        (w.uint32(3), "is 3, expected a power of two"),
        (w.uint32(4), "is 4, expected a power of two from 8"),
        (w.uint32(48), "is 48, expected a power of two"),
        (w.uint32(1 << 22), "is 4194304, expected a power of two"),
        (w.uint32(1 << 30), "is 1073741824, expected a power of two"),
        (w.uint64(32), "has the type uint64, expected uint32"),
        (w.int32(32), "has the type int32, expected uint32"),
        (w.float32(32), "has the type float32, expected uint32"),
        (w.boolean(True), "has the type bool, expected uint32"),
        (w.string("32"), "has the type string, expected uint32"),
        (w.array(w.UINT32, [32]), "has the type array, expected uint32"),
    ],
)
def test_alignment(tmp_path: Path, alignment: w.Typed, said: str) -> None:
    data = built(**{"general.alignment": alignment})
    assert f"key 'general.alignment' {said}" in refused(tmp_path / "x", data)


def test_names_must_differ(tmp_path: Path) -> None:
    keys = w.build_gguf({"key1": 1, "key2": 2}).data.replace(b"key2", b"key1")
    assert "the key 'key1' is there twice" in refused(tmp_path / "x", keys)
    tensors = w.build_gguf({}, [("t1", (1,), w.F32, bytes(4)), ("t2", (1,), w.F32, bytes(4))])
    said = refused(tmp_path / "x", tensors.data.replace(b"t2", b"t1"))
    assert "the tensor 't1' is there twice" in said


def test_names_must_be_text(tmp_path: Path) -> None:
    assert "the name of key 1 is empty" in refused(tmp_path / "x", w.build_gguf({"": 1}).data)
    data = w.build_gguf({"ab": 1}).data.replace(b"ab", b"a\xff")
    assert "the name of key 1 is not UTF-8" in refused(tmp_path / "x", data)
    assert "expected at most 65535" in refused(tmp_path / "x", w.build_gguf({"k" * 65536: 1}).data)


def test_messages_do_not_carry_control_characters(tmp_path: Path) -> None:
    data = w.build_gguf({"\x1b[31m\n": w.Typed(w.BOOL, 9)}).data
    said = refused(tmp_path / "x", data)
    assert said.isprintable()
    assert "\\x1b[31m" in said


SENSELESS: dict[str, tuple[dict[str, Any], str]] = {
    "block_count 2**31": ({"llama.block_count": w.uint32(1 << 31)}, "llama.block_count"),
    "block_count 2**31, 64 bits": ({"llama.block_count": w.uint64(1 << 31)}, "llama.block_count"),
    "block_count 2**64-1": ({"llama.block_count": w.uint64((1 << 64) - 1)}, "llama.block_count"),
    "block_count 0": ({"llama.block_count": w.uint32(0)}, "llama.block_count"),
    "block_count -1": ({"llama.block_count": w.int32(-1)}, "llama.block_count"),
    "block_count text": ({"llama.block_count": "2"}, "llama.block_count"),
    "block_count bool": ({"llama.block_count": True}, "llama.block_count"),
    "context 2**31": ({"llama.context_length": w.uint32(1 << 31)}, "llama.context_length"),
    "heads per layer": (
        {"llama.attention.head_count_kv": w.array(w.INT32, [8, -1])},
        "llama.attention.head_count_kv",
    ),
    "architecture 3": ({"general.architecture": 3}, "general.architecture"),
    "tokens as numbers": (
        {"tokenizer.ggml.tokens": w.array(w.INT32, [1])},
        "tokenizer.ggml.tokens",
    ),
    "merges as text": ({"tokenizer.ggml.merges": "a b"}, "tokenizer.ggml.merges"),
    "scores uint8": ({"tokenizer.ggml.scores": w.array(w.UINT8, [1])}, "tokenizer.ggml.scores"),
    "scores float64": ({"tokenizer.ggml.scores": w.array(w.FLOAT64, [1])}, "tokenizer.ggml.scores"),
    "scores text": ({"tokenizer.ggml.scores": ["1"]}, "tokenizer.ggml.scores"),
    "one score for two tokens": (
        {"tokenizer.ggml.tokens": ["a", "b"], "tokenizer.ggml.scores": w.array(w.FLOAT32, [1])},
        "tokenizer.ggml.scores",
    ),
    "types uint8": (
        {"tokenizer.ggml.token_type": w.array(w.UINT8, [1])},
        "tokenizer.ggml.token_type",
    ),
    "one type for two tokens": (
        {"tokenizer.ggml.tokens": ["a", "b"], "tokenizer.ggml.token_type": w.array(w.INT32, [1])},
        "tokenizer.ggml.token_type",
    ),
}


@pytest.mark.parametrize("name", SENSELESS)
def test_values_that_make_no_sense(tmp_path: Path, name: str) -> None:
    metadata, key = SENSELESS[name]
    data = w.build_gguf({"general.architecture": "llama", **metadata}, TENSORS).data
    assert re.match(f"key '{re.escape(key)}' is .*, expected ", refused(tmp_path / "x", data))


@pytest.mark.parametrize("element", [w.FLOAT32, w.INT32])
def test_scores_of_either_type_are_fine(tmp_path: Path, element: int) -> None:
    metadata = {"tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.scores": w.array(element, [3, 4])}
    scores = open_gguf(w.write_gguf(tmp_path / "x", metadata)).numbers("tokenizer.ggml.scores")
    assert scores is not None
    assert scores.tolist() == [3, 4]


@pytest.mark.parametrize(
    "tensors", [[], TENSORS, [("odd", (7,), 24, bytes(7))]], ids=["none", "two", "odd"]
)
@pytest.mark.parametrize("cut", [False, True], ids=["padded", "cut"])
def test_files_joined_to_one(tmp_path: Path, tensors: list[w.Tensor], cut: bool) -> None:
    first = w.build_gguf({"k": 1}, tensors)
    end = len(first.data)
    if cut and tensors:
        name, _, _, data = tensors[-1]
        end = first.marks[f"{name} data"] + len(data)
    said = refused(tmp_path / "x", first.data[:end] + w.build_gguf({}, TENSORS).data)
    assert f"a second GGUF file begins at byte {end}" in said


def test_other_bytes_behind_the_data_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(built(k=1) + b"signature")
    assert open_gguf(path).integer("k") == 1


def not_there(path: Path) -> None:
    pass


PATHS: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (not_there, "there is no such file"),
    "folder": (Path.mkdir, "this is a folder"),
    "pipe": (os.mkfifo, "not a regular file"),
    "empty": (Path.touch, "the file is empty"),
    "link to nothing": (lambda path: path.symlink_to("nowhere"), "there is no such file"),
}


@pytest.mark.parametrize("name", PATHS)
def test_paths(tmp_path: Path, name: str) -> None:
    make, said = PATHS[name]
    path = tmp_path / "x.gguf"
    make(path)
    with pytest.raises(GGUFError, match=re.escape(f"{path}: {said}")):
        open_gguf(path)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "the path of the model file is empty"),
        (".", "this is a folder"),
        ("/dev/null", "not a regular file"),
        ("a\0b", "cannot be opened"),
        ("a" * 5000, "cannot be opened"),
        ("a" * 5000 + "-00001-of-00002.gguf", "cannot be opened"),
        ("\udcff", "there is no such file"),
    ],
)
def test_odd_paths(path: str, said: str) -> None:
    with pytest.raises(GGUFError, match=said):
        open_gguf(path)
