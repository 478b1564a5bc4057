"""Metadata values: the thirteen GGUF value types and how they read. Knows no key by name."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from edgellm.gguf_loader.reader import Reader, quoted
from edgellm.gguf_loader.strings import StringArray, walk

# Arrays of arrays become tuples; numeric arrays are numpy arrays, views of the file where they can.
Value: TypeAlias = "int | float | bool | str | npt.NDArray[Any] | StringArray | tuple[Value, ...]"

UINT32, BOOL, STRING, ARRAY = 4, 7, 8, 9

_MAX_STRING = 8 << 20  # bytes; chat templates take 30 KiB, an embedded tokenizer.json a few MiB
_MAX_DEPTH = 4  # arrays inside arrays; none are in use


@dataclass(frozen=True)
class _Number:
    """A fixed-size value type: name, and the code that struct and numpy share."""

    name: str
    code: str


# Source: the GGUF specification, enum gguf_metadata_value_type.
_NUMBERS: dict[int, _Number] = {
    0: _Number("uint8", "B"),
    1: _Number("int8", "b"),
    2: _Number("uint16", "H"),
    3: _Number("int16", "h"),
    4: _Number("uint32", "I"),
    5: _Number("int32", "i"),
    6: _Number("float32", "f"),
    BOOL: _Number("bool", "B"),
    10: _Number("uint64", "Q"),
    11: _Number("int64", "q"),
    12: _Number("float64", "d"),
}
_OTHERS = {STRING: "string", ARRAY: "array"}


def type_name(type_id: int) -> str:
    """The name of a value type, for messages."""
    if type_id in _NUMBERS:
        return _NUMBERS[type_id].name
    return _OTHERS.get(type_id, f"unknown type {type_id}")


def describe(value: Value) -> str:
    """What a value is, for messages."""
    match value:
        case bool():
            return "a bool"
        case int():
            return f"the integer {value}"
        case float():
            return f"the number {value}"
        case str():
            return f"the string {quoted(value)}"
        case StringArray():
            return f"an array of {len(value)} strings"
        case tuple():
            return f"an array of {len(value)} arrays"
    return f"an array of {len(value)} {value.dtype.name}"


def read_value(reader: Reader, key: str, type_id: int) -> Value:
    """The value of `key` at the reader's position, which moves behind it."""
    if type_id in _NUMBERS:
        return _number(reader, key, type_id)
    if type_id == STRING:
        return reader.string(_MAX_STRING, f"key {quoted(key)}").decode("utf-8", "surrogateescape")
    if type_id == ARRAY:
        return _array(reader, key, 1)
    raise reader.error(f"key {quoted(key)} has the {type_name(type_id)}, expected 0 to 12")


def _number(reader: Reader, key: str, type_id: int) -> int | float | bool:
    value = reader.number(_NUMBERS[type_id].code, f"key {quoted(key)}")
    if type_id != BOOL:
        return value
    if value not in (0, 1):
        raise reader.error(f"key {quoted(key)} is a bool with the value {value}, expected 0 or 1")
    return bool(value)


def _array(reader: Reader, key: str, depth: int) -> Value:
    what = f"elements of the array {quoted(key)}"
    element = reader.integer("I", f"the element type of key {quoted(key)}")
    if element in _NUMBERS:
        return _numbers(reader, key, element, what)
    if element == STRING:
        return _strings(reader, key, what)
    if element != ARRAY:
        raise reader.error(
            f"key {quoted(key)} is an array of the {type_name(element)}, expected 0 to 12"
        )
    if depth == _MAX_DEPTH:
        raise reader.error(f"key {quoted(key)} nests arrays deeper than {_MAX_DEPTH}")
    count = reader.count(12, what)
    reader.charge(256 * count, f"key {quoted(key)}")
    return tuple(_array(reader, key, depth + 1) for _ in range(count))


def _numbers(reader: Reader, key: str, element: int, what: str) -> npt.NDArray[Any]:
    dtype = np.dtype(reader.prefix + _NUMBERS[element].code)
    count = reader.count(dtype.itemsize, what)
    start, nbytes = reader.position, count * dtype.itemsize
    reader.position += nbytes
    values = reader.view[start : reader.position].view(dtype)
    if element == BOOL:
        reader.charge(nbytes, f"key {quoted(key)}")  # not allocated, but bounds the time to check
        if count and values.max() > 1:
            raise reader.error(f"key {quoted(key)} is an array of bools and holds {values.max()}")
        return values.view(np.bool_)
    if not dtype.isnative:
        reader.charge(nbytes, f"key {quoted(key)}")
        return values.astype(dtype.newbyteorder("="))
    return values


def _strings(reader: Reader, key: str, what: str) -> StringArray:
    count = reader.count(8, what)
    reader.charge(8 * count, f"key {quoted(key)}")
    start = reader.position
    ends = walk(reader.map, start, count, reader.prefix)
    if ends is None:
        raise reader.error(
            f"the strings of key {quoted(key)} run past the end of the file: "
            "it is damaged or incomplete"
        )
    reader.position += int(ends[-1]) if count else 0
    return StringArray(reader.view[start : reader.position], ends)
