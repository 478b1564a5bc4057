"""Importance matrices in llama.cpp's old files: read as they are meant, refused when broken."""

import struct
from pathlib import Path

import numpy as np
import pytest

from edgellm.errors import GGUFError
from edgellm.gguf_loader import open_gguf
from edgellm.quantize.importance import fitted, read_importance
from tests.gguf_writer import F32, write_gguf

ONE, EXPERTS = "blk.0.ffn_up.weight", "blk.0.ffn_up_exps.weight"


def old(entries: dict[str, tuple[int, list[float]]], text: str | None = "a.txt") -> bytes:
    data = struct.pack("<i", len(entries))
    for name, (calls, values) in entries.items():
        data += struct.pack("<i", len(name)) + name.encode()
        data += struct.pack("<ii", calls, len(values)) + np.array(values, "<f4").tobytes()
    if text is not None:
        data += struct.pack("<ii", 7, len(text)) + text.encode()
    return data


ENTRIES = {ONE: (2, [2.0, 4, 0]), EXPERTS: (0, [1.0, 2, 3, 4, 5, 6])}


def test_means_are_sums_of_calls(tmp_path: Path) -> None:
    path = tmp_path / "i.dat"
    path.write_bytes(old(ENTRIES))
    found = read_importance(path)
    assert (found.datasets, found.chunks) == (("a.txt",), 7)
    assert {name: mean.tolist() for name, mean in found.means.items()} == {
        ONE: [[1, 2, 0]],
        EXPERTS: [[1, 2, 3, 4, 5, 6]],
    }
    path.write_bytes(old(ENTRIES, None))
    assert (read_importance(path).datasets, read_importance(path).chunks) == ((), 0)


def test_the_model_tells_experts_apart(tmp_path: Path) -> None:
    path = tmp_path / "i.dat"
    path.write_bytes(old({**ENTRIES, "not.there": (1, [1.0])}))
    shapes = {ONE: (3, 5), EXPERTS: (3, 5, 2)}
    tensors = [(n, s, F32, np.zeros(s[::-1], np.float32)) for n, s in shapes.items()]
    model = write_gguf(tmp_path / "m.gguf", {"general.architecture": "llama"}, tensors)
    with open_gguf(model) as file:
        means = fitted(read_importance(path), file).means
        assert means[EXPERTS].tolist() == [[1, 2, 3], [4, 5, 6]]
        assert means[ONE].shape == (1, 3) and means["not.there"].shape == (1, 1)
        path.write_bytes(old({ONE: (1, [1.0, 2])}))
        with pytest.raises(GGUFError, match=rf"for {ONE}, whose shape is .* another model"):
            fitted(read_importance(path), file)


def test_what_is_cut_short_is_refused(tmp_path: Path) -> None:
    path, whole = tmp_path / "i.dat", old(ENTRIES)
    without_text = len(old(ENTRIES, None))
    for size in set(range(len(whole))) - {without_text}:
        path.write_bytes(whole[:size])
        with pytest.raises(GGUFError, match="no importance matrix"):
            read_importance(path)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (struct.pack("<i", -1), "entries is -1"),
        (struct.pack("<ii", 1, 2**31 - 1), "2,147,483,647 bytes are told where 0 are left"),
        (struct.pack("<ii", 1, 1) + b"\xff", "a name is no text"),
        (old({ONE: (-1, [1.0])}), f"calls of {ONE} is -1"),
        (old({ONE: (1, [])}), f"columns of {ONE} is 0"),
        (old({ONE: (1, [float("nan")])}), f"{ONE} holds numbers that are negative or not finite"),
        (old({ONE: (1, [-1.0])}), f"{ONE} holds numbers that are negative or not finite"),
        (b"PK\x03\x04 or any other file", "no importance matrix"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "i.dat"
    path.write_bytes(data)
    with pytest.raises(GGUFError, match=why):
        read_importance(path)
