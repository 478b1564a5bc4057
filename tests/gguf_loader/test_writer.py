"""Writing files: what is written is read again, whole or not at all."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgellm.errors import GGUFError
from edgellm.gguf_loader import Chunks, NewTensor, check_free, entry, open_gguf, write_gguf
from tests.gguf_writer import Q8_0, array, build_gguf, int8, uint64, write_gguf as write_for_tests

VALUES = {
    "general.architecture": "llama",
    "a.bool": True,
    "a.int": 7,
    "a.float": 0.5,
    "a.wide": np.uint64(2**40),
    "a.text": "\udcff ünder",
    "a.texts": ["one", "", "zwei"],
    "a.numbers": np.array([1, -2, 3], np.int32),
    "a.bools": np.array([True, False]),
}
TENSORS = [NewTensor("x.weight", (32, 2), Q8_0), NewTensor("y", (3,), 0)]
DATA: list[Chunks] = [[bytes(34), np.arange(34, dtype=np.uint8)], [bytes(range(12))]]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new.gguf"
    size = write_gguf(path, [entry(k, v) for k, v in VALUES.items()], TENSORS, DATA)
    assert size == path.stat().st_size
    with open_gguf(path) as file:
        assert file.metadata.keys() == VALUES.keys()
        for key, value in VALUES.items():
            found = file.metadata[key]
            if isinstance(value, list):
                assert list(file.strings(key) or ()) == value
            else:
                assert np.array_equal(found, value), key  # type: ignore[arg-type]
        assert [(t.name, t.shape, t.type_id) for t in file.tensors.values()] == [
            (t.name, t.shape, t.type_id) for t in TENSORS
        ]
        assert file.data("x.weight").tobytes() == bytes(34) + bytes(range(34))
        assert file.data("y").tobytes() == bytes(range(12))


def test_entries_are_copied_to_the_bit(tmp_path: Path) -> None:
    """Types that Python's values do not tell apart stay what they were."""
    metadata = {
        "general.architecture": "llama",
        "an.int8": int8(-3),
        "a.uint64": uint64(3),
        "nested": array(9, [array(8, ["a"]), array(4, [1, 2])]),
        "general.alignment": 64,
    }
    old = write_for_tests(
        tmp_path / "old.gguf", metadata, [("t", (4,), 0, bytes(16))], alignment=64
    )
    with open_gguf(old) as file:
        entries = [file.entry(key) for key in file.metadata]
        copies = [NewTensor(t.name, t.shape, t.type_id) for t in file.tensors.values()]
        new = tmp_path / "new.gguf"
        write_gguf(new, entries, copies, [[file.data("t")]], file.alignment)
    assert new.read_bytes() == old.read_bytes()


def test_entries_of_the_other_byte_order_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "big.gguf"
    path.write_bytes(build_gguf({"general.architecture": "llama"}, byte_order="big").data)
    with open_gguf(path) as file, pytest.raises(GGUFError, match="big-endian"):
        file.entry("general.architecture")


def test_a_file_gives_way_only_when_told(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"old")
    with pytest.raises(GGUFError, match="already"):
        write_gguf(path, [], TENSORS, DATA)
    assert path.read_bytes() == b"old"
    with open(path, "rb") as reader:
        write_gguf(path, [], TENSORS, DATA, replace=True)
        assert reader.read() == b"old"  # a reader of the old file keeps it
    assert path.read_bytes()[:4] == b"GGUF"


class _Stop(Exception):
    pass


def _breaks() -> Iterator[bytes]:
    yield bytes(34)
    raise _Stop


@pytest.mark.parametrize("kind", ["breaks", "short", "too few"])
def test_nothing_is_left_of_a_failure(tmp_path: Path, kind: str) -> None:
    data: dict[str, list[Chunks]] = {
        "breaks": [_breaks(), [bytes(12)]],
        "short": [[bytes(67)], [bytes(12)]],
        "too few": [[bytes(68)]],
    }
    with pytest.raises((_Stop, ValueError)):
        write_gguf(tmp_path / "x.gguf", [], TENSORS, data[kind])
    assert not os.listdir(tmp_path)


def test_a_folder_is_no_place_to_write_to(tmp_path: Path) -> None:
    """Not even when what is there is to give way: it is said before anything is computed."""
    with pytest.raises(GGUFError, match="is a folder: name a file in it"):
        check_free(tmp_path, replace=True)


def test_a_disk_that_says_no(tmp_path: Path) -> None:
    with pytest.raises(GGUFError, match="there is no folder"):
        write_gguf(tmp_path / "nowhere" / "x.gguf", [], TENSORS, DATA)


def test_a_full_disk_is_named(tmp_path: Path, full_disk: None) -> None:
    with pytest.raises(GGUFError, match="No space left"):
        write_gguf(tmp_path / "x.gguf", [], TENSORS, DATA)
