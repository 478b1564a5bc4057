"""Metadata values come back as they were written, in both byte orders."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from edgellm.errors import GGUFError
from edgellm.gguf_loader import StringArray, open_gguf
from tests import gguf_writer as w

INTEGERS = {
    w.UINT8: (0, 8),
    w.INT8: (7, 7),
    w.UINT16: (0, 16),
    w.INT16: (15, 15),
    w.UINT32: (0, 32),
    w.INT32: (31, 31),
    w.UINT64: (0, 64),
    w.INT64: (63, 63),
}


def integers(type_id: int) -> st.SearchStrategy[int]:
    below, above = INTEGERS[type_id]
    return st.integers(-(1 << below) if below else 0, (1 << above) - 1)


NUMBERS: dict[int, st.SearchStrategy[Any]] = {
    **{type_id: integers(type_id) for type_id in INTEGERS},
    w.FLOAT32: st.floats(width=32, allow_nan=False),
    w.FLOAT64: st.floats(allow_nan=False),
    w.BOOL: st.booleans(),
}
TEXT = st.text(max_size=20)


@st.composite
def typed_values(draw: st.DrawFn, depth: int = 3) -> w.Typed:
    """Any GGUF value; arrays nest up to `depth`."""
    type_id = draw(st.sampled_from([*NUMBERS, w.STRING] + [w.ARRAY] * (2 if depth else 0)))
    if type_id == w.STRING:
        return w.string(draw(TEXT))
    if type_id in NUMBERS:
        return w.Typed(type_id, draw(NUMBERS[type_id]))
    element = draw(st.sampled_from([*NUMBERS, w.STRING] + [w.ARRAY] * (depth > 1)))
    if element == w.ARRAY:
        inner = typed_values(depth - 1).filter(lambda value: value.type_id == w.ARRAY)
        return w.array(element, draw(st.lists(inner, max_size=3)))
    return w.array(element, draw(st.lists(NUMBERS.get(element, TEXT), max_size=5)))


def plain(value: Any) -> Any:
    """A read value, or a written one, as lists and Python scalars."""
    match value:
        case w.Typed():
            return plain(value.value)
        case np.ndarray():
            return value.tolist()
        case StringArray() | tuple() | list():
            return [plain(item) for item in value]
    return value


@pytest.mark.parametrize("byte_order", ["little", "big"])
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, byte_order: w.ByteOrder, data: st.DataObject
) -> None:
    metadata = data.draw(
        st.dictionaries(st.text(min_size=1, max_size=9).map("x.".__add__), typed_values())
    )
    path = tmp_path_factory.getbasetemp() / f"round-{byte_order}.gguf"
    w.write_gguf(path, metadata, byte_order=byte_order)
    with open_gguf(path) as file:
        assert file.byte_order == byte_order
        assert {key: plain(value) for key, value in file.metadata.items()} == plain_all(metadata)


def plain_all(metadata: dict[str, w.Typed]) -> dict[str, Any]:
    return {key: plain(value) for key, value in metadata.items()}


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("element", sorted(NUMBERS))
def test_arrays_have_the_dtype_of_the_file_in_native_order(
    tmp_path: Path, byte_order: w.ByteOrder, element: int
) -> None:
    path = w.write_gguf(tmp_path / "a", {"k": w.array(element, [0, 1])}, byte_order=byte_order)
    values = open_gguf(path).metadata["k"]
    assert isinstance(values, np.ndarray)
    (name,) = (name for name, type_id in w._DTYPES.items() if type_id == element)
    assert values.dtype == np.dtype(name)
    assert values.dtype.isnative


def test_numeric_arrays_are_views_of_the_file(tmp_path: Path) -> None:
    values = open_gguf(w.write_gguf(tmp_path / "a", {"k": np.arange(9.0)})).metadata["k"]
    assert isinstance(values, np.ndarray)
    assert values.base is not None
    assert not values.flags.writeable


def test_text_that_is_not_utf8_keeps_its_bytes(tmp_path: Path) -> None:
    text = open_gguf(w.write_gguf(tmp_path / "a", {"k": b"\xff\xc3"})).string("k")
    assert text is not None
    assert text.encode("utf-8", "surrogateescape") == b"\xff\xc3"


def test_special_floats(tmp_path: Path) -> None:
    file = open_gguf(w.write_gguf(tmp_path / "a", {"n": math.nan, "i": -math.inf}))
    assert math.isnan(file.number("n") or 0.0)
    assert file.number("i") == -math.inf


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (w.Typed(w.BOOL, 2), "bool with the value 2"),
        (w.array(w.BOOL, [0, 1, 7]), "array of bools and holds 7"),
    ],
)
def test_bools_are_0_or_1(tmp_path: Path, value: w.Typed, said: str) -> None:
    with pytest.raises(GGUFError, match=said):
        open_gguf(w.write_gguf(tmp_path / "a", {"k": value}))


def nested(depth: int) -> w.Typed:
    value = w.array(w.INT8, [1])
    for _ in range(depth - 1):
        value = w.array(w.ARRAY, [value])
    return value


def test_arrays_nest_four_deep_and_no_deeper(tmp_path: Path) -> None:
    assert plain(open_gguf(w.write_gguf(tmp_path / "a", {"k": nested(4)})).metadata["k"]) == [
        [[[1]]]
    ]
    with pytest.raises(GGUFError, match=r"'k' nests arrays deeper than 4"):
        open_gguf(w.write_gguf(tmp_path / "b", {"k": nested(5)}))
