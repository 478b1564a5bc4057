"""An opened file: tensors, their bytes, and metadata by type."""

from pathlib import Path

import numpy as np
import pytest

from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGUFFile, open_gguf
from tests import gguf_writer as w

MATRIX = np.arange(64, dtype=np.float32)
BLOCKS = bytes(range(36))
TENSORS: list[w.Tensor] = [
    ("m", (32, 2), w.F32, MATRIX),
    ("q", (32, 1, 2), w.Q4_0, BLOCKS),
    ("s", (), w.F32, np.float32(7).tobytes()),
]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("alignment", [8, 32, 4096])
def test_tensors(tmp_path: Path, version: int, alignment: int) -> None:
    path = w.write_gguf(tmp_path / "a", {}, TENSORS, version=version, alignment=alignment)
    with open_gguf(path) as file:
        assert (file.version, file.alignment, file.byte_order) == (version, alignment, "little")
        assert file.path == path
        assert file.parts == (path,)
        assert list(file.tensors) == ["m", "q", "s"]
        m, q, s = file.tensors.values()
        assert (m.shape, m.columns, m.rows, m.nbytes, m.type_name) == ((32, 2), 32, 2, 256, "F32")
        assert (q.shape, q.columns, q.rows, q.nbytes, q.type_name) == (
            (32, 1, 2),
            32,
            2,
            36,
            "Q4_0",
        )
        assert (s.shape, s.rows) == ((1,), 1)
        assert file.num_parameters == 64 + 64 + 1
        assert file.data("m").view(np.float32).tolist() == MATRIX.tolist()
        assert file.data("q").tobytes() == BLOCKS


def test_data_is_a_read_only_view_of_the_map(tmp_path: Path) -> None:
    file = open_gguf(w.write_gguf(tmp_path / "a", {}, TENSORS))
    data = file.data("m")
    assert np.shares_memory(data, file.data("m"))
    with pytest.raises(ValueError, match="read-only"):
        data[0] = 1


def test_data_outlives_the_file(tmp_path: Path) -> None:
    with open_gguf(w.write_gguf(tmp_path / "a", {"k": ["x"]}, TENSORS)) as file:
        data, strings = file.data("q"), file.strings("k")
    assert data.tobytes() == BLOCKS
    assert strings is not None
    assert strings[0] == "x"
    with pytest.raises(ValueError, match="closed"):
        file.data("q")


def test_big_endian_numbers_are_swapped(tmp_path: Path) -> None:
    tensors: list[w.Tensor] = [
        ("f", (64,), w.F32, MATRIX.astype(">f4")),
        ("h", (2,), w.F16, np.array([1, 2], ">f2")),
        ("b", (3,), 24, b"abc"),
        ("q", (32, 2), w.Q4_0, BLOCKS),
    ]
    file = open_gguf(w.write_gguf(tmp_path / "a", {"n": 5}, tensors, byte_order="big"))
    assert file.byte_order == "big"
    assert file.integer("n") == 5
    assert file.data("f").view(np.float32).tolist() == MATRIX.tolist()
    assert file.data("h").view(np.float16).tolist() == [1, 2]
    assert file.data("b").tobytes() == b"abc"
    assert not file.data("f").flags.writeable
    with pytest.raises(GGUFError, match=r"'q' is Q4_0 in a big-endian file"):
        file.data("q")


def test_a_tensor_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(GGUFError, match="no tensor 'nope'"):
        open_gguf(w.write_gguf(tmp_path / "a", {}, TENSORS)).data("nope")


KINDS = ("integer", "number", "string", "boolean", "strings", "integers", "numbers")
VALUES = {
    "i": (3, {"integer", "number"}),
    "f": (0.5, {"number"}),
    "s": ("text", {"string"}),
    "b": (True, {"boolean"}),
    "si": (["a", "b"], {"strings"}),
    "ai": (w.array(w.INT16, [1, -2]), {"integers", "numbers"}),
    "af": (w.array(w.FLOAT64, [1.5]), {"numbers"}),
    "ab": (w.array(w.BOOL, [True]), set()),
    "aa": (w.array(w.ARRAY, [w.array(w.INT8, [1])]), set()),
}


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> GGUFFile:
    metadata = {key: value for key, (value, _) in VALUES.items()}
    return open_gguf(w.write_gguf(tmp_path_factory.mktemp("typed") / "a", metadata))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", sorted(VALUES))
def test_typed_access(typed: GGUFFile, key: str, kind: str) -> None:
    value, fitting = VALUES[key]
    get = getattr(typed, kind)
    if kind not in fitting:
        with pytest.raises(GGUFError, match=f"{typed.path}: key '{key}' is .*, expected a"):
            get(key)
    elif isinstance(value, w.Typed):
        assert get(key).tolist() == value.value
    elif isinstance(value, list):
        assert list(get(key)) == value
    else:
        assert get(key) == value
        assert type(get(key)) is (float if kind == "number" else type(value))


@pytest.mark.parametrize("kind", KINDS)
def test_absent_keys_are_none(typed: GGUFFile, kind: str) -> None:
    assert getattr(typed, kind)("absent") is None


def test_metadata_cannot_be_changed(typed: GGUFFile) -> None:
    with pytest.raises(TypeError):
        typed.metadata["i"] = 4  # type: ignore[index]
