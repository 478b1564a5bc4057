"""Damaged files: GGUFError or a file that holds together, little memory, no hang."""

import re
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from edgellm.errors import GGUFError
from edgellm.gguf_loader import StringArray, open_gguf
from tests import gguf_writer as w
from tests.waiting import PATIENCE

METADATA = {
    "general.architecture": "llama",
    "general.alignment": w.uint32(32),
    "llama.block_count": w.uint32(2),
    "llama.attention.head_count_kv": w.array(w.INT32, [1, 2]),
    "llama.rope.freq_base": 10000.0,
    "flag": True,
    "wide": w.uint64(1 << 40),
    "double": w.float64(0.5),
    "flags": w.array(w.BOOL, [True, False]),
    "nested": w.array(w.ARRAY, [w.array(w.STRING, ["a"]), w.array(w.UINT8, [1, 2])]),
    "tokenizer.ggml.tokens": ["<s>", "b", "▁c", ""],
    "tokenizer.ggml.scores": np.zeros(4, np.float32),
    "tokenizer.ggml.token_type": np.ones(4, np.int32),
    "tokenizer.chat_template": "{{ messages }}",
    "split.count": w.uint16(1),
    "split.no": w.uint16(0),
    "split.tensors.count": w.int32(3),
}
TENSORS: list[w.Tensor] = [
    ("token_embd.weight", (32, 4), w.Q4_0, bytes(72)),
    ("blk.0.ffn_gate.weight", (8, 2, 2, 1), w.F16, bytes(64)),
    ("output_norm.weight", (8,), w.F32, bytes(32)),
]
IMAGES = {
    "little": w.build_gguf(METADATA, TENSORS, byte_order="little"),
    "big": w.build_gguf(METADATA, TENSORS, byte_order="big"),
}
STRUCTURE = IMAGES["little"].marks["data"]  # bytes in front of the tensor data

LITTLE_AND_BIG = pytest.mark.parametrize("byte_order", ["little", "big"])


@contextmanager
def bounded(memory: int = 64 << 20, seconds: float = PATIENCE) -> Iterator[None]:
    """Fails when the block allocates more at any time, or runs far longer than it may."""
    started = time.monotonic()
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < memory
    assert time.monotonic() - started < seconds


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "fuzz.gguf"


def outcome(path: Path, data: bytes) -> str | None:
    """Open the bytes: None, after everything in them was read, or the message of a refusal."""
    path.unlink(missing_ok=True)  # a new inode: an earlier map of the path stays whole
    path.write_bytes(data)
    try:
        file = open_gguf(path)
    except GGUFError as error:
        message = str(error)
        assert message.startswith(f"{path}: ")
        assert len(message) < 1000
        return message.removeprefix(f"{path}: ")
    for value in file.metadata.values():
        assert str(list(value) if isinstance(value, StringArray) else value) is not None
    for name, tensor in file.tensors.items():
        if file.byte_order == "little":
            assert file.data(name).size == tensor.nbytes
    return None


@LITTLE_AND_BIG
def test_the_whole_file_opens(path: Path, byte_order: w.ByteOrder) -> None:
    assert outcome(path, IMAGES[byte_order].data) is None


@LITTLE_AND_BIG
def test_cut_at_every_byte(path: Path, byte_order: w.ByteOrder) -> None:
    data = IMAGES[byte_order].data
    with bounded():
        for end in range(len(data)):
            said = outcome(path, data[:end])
            assert said is not None, f"opened when cut to {end} bytes"
            if end >= 24:
                assert re.search(r"(key|tensor|array) ('|\d)|\d (keys|tensors)", said)


@LITTLE_AND_BIG
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_structural_byte_flipped(path: Path, byte_order: w.ByteOrder, flip: int) -> None:
    data = bytearray(IMAGES[byte_order].data)
    refused = 0
    with bounded():
        for at in range(STRUCTURE):
            data[at] ^= flip
            refused += outcome(path, bytes(data)) is not None
            data[at] ^= flip
    assert refused > STRUCTURE // 4


EXTREMES = (0, 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


@LITTLE_AND_BIG
def test_extreme_numbers_at_every_mark(path: Path, byte_order: w.ByteOrder) -> None:
    image = IMAGES[byte_order]
    with bounded():
        for label in image.marks:
            code, most = ("I", 2**32) if label.endswith(("type", "dimensions")) else ("Q", 2**64)
            for value in EXTREMES:
                if value < most:
                    outcome(path, image.patch(label, code, value).data)


NAMED = {
    "llama.rope.freq_base type": "key 'llama.rope.freq_base'",
    "nested element type": "key 'nested'",
    "nested[1] element type": "key 'nested'",
    "nested[1] count": "array 'nested'",
    "tokenizer.ggml.tokens count": "array 'tokenizer.ggml.tokens'",
    "tokenizer.chat_template value": "key 'tokenizer.chat_template'",
    "token_embd.weight dimensions": "tensor 'token_embd.weight'",
    "token_embd.weight shape[1]": "tensor 'token_embd.weight'",
    "output_norm.weight type": "tensor 'output_norm.weight'",
    "output_norm.weight offset": "tensor 'output_norm.weight'",
}


@pytest.mark.parametrize("label", NAMED)
def test_the_message_names_the_key_or_tensor(path: Path, label: str) -> None:
    code, value = ("I", 1 << 31) if label.endswith(("type", "dimensions")) else ("Q", 1 << 62)
    said = outcome(path, IMAGES["little"].patch(label, code, value).data)
    assert said is not None
    assert NAMED[label] in said


@settings(deadline=None, max_examples=300)
@given(
    byte_order=st.sampled_from(["little", "big"]),
    edits=st.lists(st.tuples(st.integers(0, STRUCTURE - 1), st.binary(min_size=1, max_size=9))),
    cut=st.none() | st.integers(0, len(IMAGES["little"].data)),
)
def test_any_damage(
    path: Path, byte_order: w.ByteOrder, edits: list[tuple[int, bytes]], cut: int | None
) -> None:
    data = bytearray(IMAGES[byte_order].data)
    for at, new in edits:
        data[at : at + len(new)] = new
    outcome(path, bytes(data[:cut]))


@settings(deadline=None, max_examples=200)
@given(tail=st.binary(max_size=300), tensors=st.integers(0, 9), keys=st.integers(0, 9))
@example(tail=bytes(300), tensors=9, keys=9)
def test_noise_behind_a_header(path: Path, tail: bytes, tensors: int, keys: int) -> None:
    header = w.build_gguf({}).patch("tensor count", "Q", tensors).patch("key count", "Q", keys)
    outcome(path, header.data[:24] + tail)


def repeated_key(count: int, value: bytes) -> bytes:
    """A file of `count` keys "00000000", "00000001", ... with the type and value `value`."""
    header = w.build_gguf({}).patch("key count", "Q", count).data[:24]
    entries = (b"\x08" + bytes(7) + b"%08d" % i + value for i in range(count))
    return header + b"".join(entries)


def array_of(element: int, count: int, nbytes: int) -> bytes:
    """A file whose one key is an array that claims `count` elements in `nbytes` zero bytes."""
    image = w.build_gguf({"k": w.array(element, [])}).patch("k count", "Q", count)
    return image.data[: image.marks["k count"] + 8] + bytes(nbytes)


MANY = 10 << 20
LARGE = {
    "10 M empty strings": lambda: array_of(w.STRING, MANY, 8 * MANY),
    "10 M empty arrays": lambda: array_of(w.ARRAY, MANY, 12 * MANY),
    "100 M bools": lambda: array_of(w.BOOL, 10 * MANY, 10 * MANY),
    "one string of 100 MB": lambda: (
        w.build_gguf({"k": w.string("")}).patch("k value", "Q", 10 * MANY).data + bytes(10 * MANY)
    ),
    "300,000 keys": lambda: repeated_key(300_000, bytes(5)),
    "60 texts of 2 MB": lambda: repeated_key(
        60, (8).to_bytes(4, "little") + (2 << 20).to_bytes(8, "little") + bytes(2 << 20)
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_files_stay_within_memory_and_time(path: Path, name: str) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(LARGE[name]())
    with bounded(), pytest.raises(GGUFError, match="more memory than is allowed|expected at most"):
        open_gguf(path)
    path.unlink()


def test_small_files_that_claim_much_take_little_memory(path: Path) -> None:
    for label in ("tensor count", "key count", "nested count", "tokenizer.ggml.tokens count"):
        for value in (1 << 30, 1 << 40, (1 << 63) - 1):
            data = IMAGES["little"].patch(label, "Q", value).data
            with bounded(memory=1 << 20):
                assert outcome(path, data) is not None
