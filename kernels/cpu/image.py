"""Machine code that runs wherever it lies in memory, and its way there.

`flatten` turns an object file as LLVM emits it into such an image, once, when it is compiled;
`Mapping` puts images into executable memory with the standard library alone. For Linux on the
machines of relocation.py: elsewhere llvmlite links objects. Knows nothing of kernels or of where
images are stored.
"""

import ctypes
import mmap
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from edgellm.errors import BackendError
from edgellm.kernels.cpu.relocation import HOST, X86_64, Machine

CAN_FLATTEN = sys.platform == "linux" and HOST is not None
MACHINE = HOST or X86_64  # the latter where no image runs

_STUB_ALIGNMENT = 16
_HEADER = struct.Struct("<III")  # bytes of code, entry, number of imports
_IMPORT = struct.Struct("<II")  # slot, bytes of the name after it

# ELF numbers.
_RELOCATABLE = 1
_PROGRAM_BITS, _SYMBOL_TABLE, _RELOCATIONS = 1, 2, 4
_WRITABLE, _IN_MEMORY, _THREAD_LOCAL = 0x1, 0x2, 0x400
_UNDEFINED = 0


@dataclass(frozen=True)
class Image:
    """code: instructions and constants. entry: where the function begins. imports: functions of
    the C library by name, and where in `code` the address of each belongs."""

    code: bytes
    entry: int
    imports: tuple[tuple[str, int], ...]

    def pack(self) -> bytes:
        """As bytes for a file."""
        names = b"".join(_IMPORT.pack(slot, len(n)) + n.encode() for n, slot in self.imports)
        return _HEADER.pack(len(self.code), self.entry, len(self.imports)) + names + self.code

    @classmethod
    def unpack(cls, data: bytes) -> "Image":
        """What `pack` made; the caller has made sure that it is that."""
        size, entry, count = _HEADER.unpack_from(data)
        place, imports = _HEADER.size, []
        for _ in range(count):
            slot, length = _IMPORT.unpack_from(data, place)
            place += _IMPORT.size
            imports.append((data[place : place + length].decode(), slot))
            place += length
        return cls(data[place : place + size], entry, tuple(imports))


class Mapping:
    """Executable memory that holds images. Their code may run while this object lives."""

    def __init__(self, images: Sequence[Image]) -> None:
        starts, size = [], 0
        for image in images:
            starts.append(size)
            size += -(-len(image.code) // MACHINE.alignment) * MACHINE.alignment
        self._memory = mmap.mmap(-1, max(size, 1))
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for start, image in zip(starts, images, strict=True):
            code = bytearray(image.code)
            for name, slot in image.imports:
                struct.pack_into("<Q", code, slot, _library_function(name))
            self._memory[start : start + len(code)] = bytes(code)
        self._protect(base, len(self._memory))
        self.addresses = tuple(base + s + i.entry for s, i in zip(starts, images, strict=True))

    def _protect(self, base: int, size: int) -> None:
        """From writable to executable: never both."""
        libc = ctypes.CDLL(None, use_errno=True)
        mode = mmap.PROT_READ | mmap.PROT_EXEC
        if libc.mprotect(ctypes.c_void_p(base), ctypes.c_size_t(size), mode):
            raise BackendError(
                f"the system lets no memory become executable (error {ctypes.get_errno()}): "
                "the cpu backend cannot run its kernels"
            )


def _library_function(name: str) -> int:
    for library in (None, "libm.so.6"):
        function = getattr(ctypes.CDLL(library), name, None)
        if function is not None:
            return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
    raise BackendError(f"the C library has no function {name}, which a kernel calls")


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    flags: int
    data: bytes
    link: int  # of a symbol table: its strings; of relocations: its symbols
    target: int  # of relocations: the section they change
    alignment: int

    @property
    def is_loaded(self) -> bool:
        return bool(self.flags & _IN_MEMORY) and self.name != ".eh_frame"


def flatten(body: bytes, symbol: str, machine: Machine = MACHINE) -> Image:
    """The image of an object file whose function is `symbol`.

    BackendError where it needs more than an image can give: data that is written, addresses that
    depend on where it lies, or another kind of file.
    """
    kind = (_RELOCATABLE, machine.number)
    if body[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", body, 16) != kind:
        raise BackendError(f"{symbol}: not an object file of this processor")
    sections = _sections(body)
    code, places = bytearray(), dict[int, int]()
    for index, section in enumerate(sections):
        if not section.is_loaded:
            continue
        if section.kind != _PROGRAM_BITS or section.flags & (_WRITABLE | _THREAD_LOCAL):
            raise BackendError(f"{symbol}: section {section.name} is no code and no constant")
        code += bytes(-len(code) % max(section.alignment, 1))
        places[index] = len(code)
        code += section.data
    table = next(s for s in sections if s.kind == _SYMBOL_TABLE)
    symbols = _symbols(table, sections[table.link].data)
    stubs: dict[str, int] = {}
    for section in sections:
        if section.kind != _RELOCATIONS or section.target not in places:
            continue
        for offset, info, addend in struct.iter_unpack("<QQq", section.data):
            number, (name, home, value) = info & 0xFFFFFFFF, symbols[info >> 32]
            if home in places and number in machine.links:
                goal = places[home] + value
            elif home == _UNDEFINED and number in machine.calls:
                if name not in stubs:
                    stubs[name] = _add_stub(code, machine.stub)
                goal = stubs[name]
            else:
                raise BackendError(
                    f"{symbol}: relocation {number} to {name or home} is not relative"
                )
            machine.links[number](code, places[section.target] + offset, goal + addend)
    entries = [places[home] + value for name, home, value in symbols if name == symbol]
    if not entries:
        raise BackendError(f"{symbol} is missing from its object file")
    imports = tuple((name, at + len(machine.stub)) for name, at in stubs.items())
    return Image(bytes(code), entries[0], imports)


def _add_stub(code: bytearray, stub: bytes) -> int:
    """Appends a jump to an address that is filled in when the image is mapped; says where."""
    code += bytes(-len(code) % _STUB_ALIGNMENT)
    start = len(code)
    code += stub + bytes(8)
    return start


def _sections(body: bytes) -> list[_Section]:
    (offset,) = struct.unpack_from("<Q", body, 40)
    size, count, names = struct.unpack_from("<HHH", body, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", body, offset + i * size) for i in range(count)]
    strings = headers[names][4]
    return [
        _Section(
            name=_text(body, strings + header[0]),
            kind=header[1],
            flags=header[2],
            data=body[header[4] : header[4] + header[5]],
            link=header[6],
            target=header[7],
            alignment=header[8],
        )
        for header in headers
    ]


def _symbols(table: _Section, strings: bytes) -> list[tuple[str, int, int]]:
    """(name, section, value) of each."""
    rows = struct.iter_unpack("<IBBHQQ", table.data)
    return [(_text(strings, name), home, value) for name, _, _, home, value, _ in rows]


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(0, start)].decode()
