"""String arrays: the same strings as a list has, without making them."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from edgellm.gguf_loader import StringArray, open_gguf
from edgellm.gguf_loader.strings import _BATCH
from tests import gguf_writer as w


def opened(path: Path, strings: list[bytes], byte_order: w.ByteOrder = "little") -> StringArray:
    w.write_gguf(path, {"k": w.array(w.STRING, strings)}, byte_order=byte_order)
    array = open_gguf(path).strings("k")
    assert array is not None
    return array


@settings(deadline=None)
@given(strings=st.lists(st.binary(max_size=12)), byte_order=st.sampled_from(["little", "big"]))
def test_same_as_the_list(
    tmp_path_factory: pytest.TempPathFactory, strings: list[bytes], byte_order: w.ByteOrder
) -> None:
    path = tmp_path_factory.getbasetemp() / "strings.gguf"
    array = opened(path, strings, byte_order)
    texts = [raw.decode("utf-8", "surrogateescape") for raw in strings]
    assert len(array) == len(strings)
    assert list(array) == texts
    assert [array[i] for i in range(len(array))] == texts
    assert [array.raw(i - len(array)) for i in range(len(array))] == strings
    assert array[1:-1] == texts[1:-1]
    assert array.lengths.tolist() == [len(raw) for raw in strings]
    pieces = zip(array.offsets.tolist(), array.lengths.tolist(), strict=True)
    assert [array.buffer[a : a + n].tobytes() for a, n in pieces] == strings


def test_more_strings_than_one_batch(tmp_path: Path) -> None:
    strings = [str(i).encode() for i in range(_BATCH + 3)]
    array = opened(tmp_path / "a", strings)
    assert array[_BATCH - 2 :] == [str(i) for i in range(_BATCH - 2, _BATCH + 3)]


def test_long_strings(tmp_path: Path) -> None:
    strings = [b"a" * 255, b"b" * 256, b"c" * 70_000, b""]
    array = opened(tmp_path / "a", strings)
    assert [array.raw(i) for i in range(4)] == strings


def test_index_out_of_range(tmp_path: Path) -> None:
    array = opened(tmp_path / "a", [b"x"])
    with pytest.raises(IndexError):
        array[1]
    with pytest.raises(IndexError):
        array.raw(-2)


def test_no_object_per_string_until_asked(tmp_path: Path) -> None:
    count = 50_000
    path = w.write_gguf(tmp_path / "a", {"k": [f"token {i}" for i in range(count)]})
    tracemalloc.start()
    try:
        file = open_gguf(path)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 8 * count + 100_000  # one int64 each
    assert file.strings("k") is not None
