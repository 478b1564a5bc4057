"""A minimal GGUF writer for tests: every value type, both byte orders, and a map of what it wrote.

    write_gguf(path, {"general.architecture": "llama", "llama.block_count": uint32(2)},
               [("output.weight", (32, 4), F32, bytes(512))])

Plain Python values get the usual types: bool, int (uint32, else int32, int64, uint64), float
(float32), str or bytes (string), list (array, typed by its first element), numpy array (array).
The wrappers below say a type outright. It checks nothing: broken files are what many tests want.
Knows nothing of the loader.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

ByteOrder = Literal["little", "big"]
Tensor = tuple[str, Sequence[int], int, Any]  # name, ggml shape, type id, bytes or numpy array

F32, F16, Q4_0, Q8_0, BF16 = 0, 1, 2, 8, 30  # the ggml type ids that tests use most

UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32 = range(7)
BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 = range(7, 13)

_CODES = {
    UINT8: "B",
    INT8: "b",
    UINT16: "H",
    INT16: "h",
    UINT32: "I",
    INT32: "i",
    FLOAT32: "f",
    BOOL: "B",
    UINT64: "Q",
    INT64: "q",
    FLOAT64: "d",
}
_DTYPES = {
    "uint8": UINT8,
    "int8": INT8,
    "uint16": UINT16,
    "int16": INT16,
    "uint32": UINT32,
    "int32": INT32,
    "float32": FLOAT32,
    "bool": BOOL,
    "uint64": UINT64,
    "int64": INT64,
    "float64": FLOAT64,
}


@dataclass(frozen=True)
class Typed:
    """A value with its GGUF type id; `element` is the type of an array's elements."""

    type_id: int
    value: Any
    element: int | None = None


def _wrapper(type_id: int) -> Callable[[Any], Typed]:
    return lambda value: Typed(type_id, value)


uint8, int8, uint16, int16 = (_wrapper(i) for i in (UINT8, INT8, UINT16, INT16))
uint32, int32, uint64, int64 = (_wrapper(i) for i in (UINT32, INT32, UINT64, INT64))
float32, float64, boolean, string = (_wrapper(i) for i in (FLOAT32, FLOAT64, BOOL, STRING))


def array(element: int, values: Sequence[Any]) -> Typed:
    """An array whose elements have the type id `element`, such as `array(INT32, [1, 2])`."""
    return Typed(ARRAY, values, element)


@dataclass(frozen=True)
class Image:
    """The bytes of a file and where its parts begin.

    marks: label -> offset. Labels are "magic", "version", "tensor count", "key count"; for a key k
    "k name", "k type", "k value" (for arrays also "k element type", "k count", and "k[i]" for
    strings and nested arrays); for a tensor t "t name", "t dimensions", "t shape[i]", "t type",
    "t offset", "t data"; and "data", where the tensor data begins.
    """

    data: bytes
    marks: Mapping[str, int] = field(default_factory=dict)
    byte_order: ByteOrder = "little"

    def patch(self, label: str, code: str, value: Any) -> "Image":
        """The image with `value`, packed by the struct code `code`, written at a mark."""
        packed = struct.pack(("<" if self.byte_order == "little" else ">") + code, value)
        at = self.marks[label]
        return replace(self, data=self.data[:at] + packed + self.data[at + len(packed) :])


class _Writer:
    def __init__(self, byte_order: ByteOrder) -> None:
        self.out = bytearray()
        self.marks: dict[str, int] = {}
        self.prefix = "<" if byte_order == "little" else ">"

    def mark(self, label: str) -> None:
        self.marks[label] = len(self.out)

    def pack(self, code: str, *values: Any) -> None:
        self.out += struct.pack(self.prefix + code, *values)

    def pad(self, alignment: int) -> None:
        self.out += bytes(-len(self.out) % alignment)

    def text(self, value: str | bytes) -> None:
        raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        self.pack("Q", len(raw))
        self.out += raw

    def value(self, label: str, typed: Typed) -> None:
        if typed.type_id == STRING:
            self.text(typed.value)
        elif typed.type_id == ARRAY:
            self.array(label, typed)
        else:
            self.pack(_CODES[typed.type_id], typed.value)

    def array(self, label: str, typed: Typed) -> None:
        values = typed.value
        self.mark(f"{label} element type")
        self.pack("I", typed.element)
        self.mark(f"{label} count")
        self.pack("Q", len(values))
        if typed.element in (STRING, ARRAY):
            for i, value in enumerate(values):
                self.mark(f"{label}[{i}]")
                plain = value if isinstance(value, Typed) else typed_value(value)
                self.value(f"{label}[{i}]", plain)
        else:
            self.pack(f"{len(values)}{_CODES[typed.element or 0]}", *values)


def typed_value(value: Any) -> Typed:
    """The usual GGUF type of a plain Python value (see the module's docstring)."""
    match value:
        case Typed():
            return value
        case bool():
            return boolean(value)
        case int():
            return Typed(_integer_type(value), value)
        case float():
            return float32(value)
        case str() | bytes():
            return string(value)
        case np.ndarray():
            return array(_DTYPES[value.dtype.name], value.tolist())
        case list() | tuple():
            first = typed_value(value[0]).type_id if value else STRING
            return array(first, value)
    raise TypeError(f"no GGUF type for {type(value).__name__}")


def _integer_type(value: int) -> int:
    for type_id, least, most in (
        (UINT32, 0, 2**32 - 1),
        (INT32, -(2**31), 2**31 - 1),
        (INT64, -(2**63), 2**63 - 1),
    ):
        if least <= value <= most:
            return type_id
    return UINT64


def build_gguf(
    metadata: Mapping[str, Any],
    tensors: Sequence[Tensor] = (),
    *,
    version: int = 3,
    byte_order: ByteOrder = "little",
    alignment: int = 32,
) -> Image:
    """The file's bytes with their marks. Tensor bytes are written as they are, in either order.

    An alignment other than 32 is also written as `general.alignment`, unless that key is given.
    """
    entries = [(key, typed_value(value)) for key, value in metadata.items()]
    if alignment != 32 and "general.alignment" not in metadata:
        entries.append(("general.alignment", uint32(alignment)))
    w = _Writer(byte_order)
    w.mark("magic")
    w.out += b"GGUF"
    for label, code, value in (
        ("version", "I", version),
        ("tensor count", "Q", len(tensors)),
        ("key count", "Q", len(entries)),
    ):
        w.mark(label)
        w.pack(code, value)
    for key, typed in entries:
        w.mark(f"{key} name")
        w.text(key)
        w.mark(f"{key} type")
        w.pack("I", typed.type_id)
        w.mark(f"{key} value")
        w.value(key, typed)
    _write_tensors(w, tensors, alignment)
    return Image(bytes(w.out), w.marks, byte_order)


def _write_tensors(w: _Writer, tensors: Sequence[Tensor], alignment: int) -> None:
    blobs = [d.tobytes() if isinstance(d, np.ndarray) else bytes(d) for *_, d in tensors]
    offset = 0
    for (name, shape, type_id, _), blob in zip(tensors, blobs, strict=True):
        w.mark(f"{name} name")
        w.text(name)
        w.mark(f"{name} dimensions")
        w.pack("I", len(shape))
        for i, dimension in enumerate(shape):
            w.mark(f"{name} shape[{i}]")
            w.pack("Q", dimension)
        w.mark(f"{name} type")
        w.pack("I", type_id)
        w.mark(f"{name} offset")
        w.pack("Q", offset)
        offset += len(blob) + -len(blob) % alignment
    w.pad(alignment)
    w.mark("data")
    for (name, *_), blob in zip(tensors, blobs, strict=True):
        w.mark(f"{name} data")
        w.out += blob
        w.pad(alignment)


def write_gguf(
    path: str | Path,
    metadata: Mapping[str, Any],
    tensors: Sequence[Tensor] = (),
    *,
    version: int = 3,
    byte_order: ByteOrder = "little",
    alignment: int = 32,
) -> Path:
    """Write a GGUF file and give its path back. Arguments as for `build_gguf`."""
    image = build_gguf(
        metadata, tensors, version=version, byte_order=byte_order, alignment=alignment
    )
    Path(path).write_bytes(image.data)
    return Path(path)
