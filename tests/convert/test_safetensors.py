"""Safetensors files: what they hold, and that no damage is overlooked."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from edgellm.convert.safetensors import read_safetensors
from edgellm.errors import GGUFError
from tests.convert.checkpoints import save_safetensors

ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def write(path: Path, header: Any, data: bytes = bytes(8), length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def test_what_is_there(tmp_path: Path) -> None:
    weights = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(3, np.float32)}
    save_safetensors(tmp_path / "x", weights, "F16")
    found = read_safetensors(tmp_path / "x")
    assert {name: (t.dtype, t.shape) for name, t in found.items()} == {
        "a": ("F16", (2, 3)),
        "b": ("F16", (3,)),
    }
    assert found["a"].data.view("<f2").tolist() == list(range(6))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"a": {**ENTRY, "data_offsets": [0, 12]}}, "takes 8 bytes"),
        ({"a": {**ENTRY, "data_offsets": [4, 12]}}, "lies at 4 to 12 of 8"),
        ({"a": {**ENTRY, "data_offsets": [8, 0]}}, "lies at 8 to 0"),
        ({"a": {**ENTRY, "shape": [3]}}, "takes 12 bytes"),
        ({"a": {**ENTRY, "shape": [-2]}}, "no dtype, shape and offsets"),
        ({"a": {**ENTRY, "shape": [True, 2]}}, "no dtype, shape and offsets"),
        ({"a": {**ENTRY, "dtype": "F4"}}, "unknown dtype 'F4'"),
        ({"a": {**ENTRY, "dtype": []}}, "no dtype, shape and offsets"),
        ({"a": 3}, "no dtype, shape and offsets"),
        ({"a": {**ENTRY, "shape": [1], "data_offsets": [0, 4]}}, "its tensors take 4"),
        ({"a": ENTRY, "b": ENTRY}, "begins at 0, expected 8"),
        (b'{"a": 1, "a": 2}', "'a' is in its header twice"),
        ([], "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100000, "not JSON"),
    ],
)
def test_damage_is_named(tmp_path: Path, header: Any, message: str) -> None:
    with pytest.raises(GGUFError, match=message):
        read_safetensors(write(tmp_path / "x", header))


@pytest.mark.parametrize("length", [1 << 40, 1000])
def test_a_header_that_leaves_the_file(tmp_path: Path, length: int) -> None:
    with pytest.raises(GGUFError, match="leaves the file"):
        read_safetensors(write(tmp_path / "x", {"a": ENTRY}, length=length))


@pytest.mark.parametrize("content", [b"", b"abc"])
def test_files_that_are_too_short(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(GGUFError):
        read_safetensors(tmp_path / "x")


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_any_change_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "changed.safetensors"
    save_safetensors(path, {"a": np.ones((2, 3), np.float32), "b": np.ones(3, np.float32)})
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))]))
    try:
        found = read_safetensors(path)
    except GGUFError:
        return
    for tensor in found.values():
        assert tensor.data.tobytes() is not None
