"""What a linker writes into machine code: relocations of a processor, and its jumps to far away.

Sources: System V ABI, AMD64 supplement, 4.4; ELF for the Arm 64-bit Architecture, 5.7.
"""

import platform
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

PAGE = 4096  # of AArch64's `adrp`, whatever the system's pages are

# link(code, place, goal): makes what is at `place` refer to `goal`; both count from the start.
Link = Callable[[bytearray, int, int], None]


@dataclass(frozen=True)
class Machine:
    """number: ELF's. alignment: of an image in memory, for `links` to be true there. stub: eight
    bytes that jump to the address in the eight bytes after them. links: by ELF's number of a
    relocation, all relative ones. calls: those of them that may as well go to a stub."""

    number: int
    alignment: int
    stub: bytes
    links: Mapping[int, Link]
    calls: frozenset[int]


def _distance(code: bytearray, place: int, goal: int) -> None:
    struct.pack_into("<i", code, place, goal - place)


def _insert(code: bytearray, place: int, first: int, bits: int, value: int) -> None:
    """Puts a number into an instruction, from bit `first` on."""
    (word,) = struct.unpack_from("<I", code, place)
    word |= (value & (1 << bits) - 1) << first
    struct.pack_into("<I", code, place, word)


def _branch(code: bytearray, place: int, goal: int) -> None:
    """`b` and `bl`: words from here, up to 128 MiB."""
    _insert(code, place, 0, 26, (goal - place) >> 2)


def _page(code: bytearray, place: int, goal: int) -> None:
    """`adrp`: pages from this one. The lowest two bits lie apart."""
    pages = goal // PAGE - place // PAGE
    _insert(code, place, 29, 2, pages)
    _insert(code, place, 5, 19, pages >> 2)


def _in_page(code: bytearray, place: int, goal: int, shift: int) -> None:
    """What is added to a page's address, in units of what is loaded."""
    _insert(code, place, 10, 12, goal % PAGE >> shift)


X86_64 = Machine(
    number=62,
    alignment=64,
    stub=b"\xff\x25\x02\0\0\0\0\0",  # jmp [rip + 2]
    links={2: _distance, 4: _distance},  # PC32, PLT32; the addend knows the instruction's end
    calls=frozenset({4}),
)
AARCH64 = Machine(
    number=183,
    alignment=PAGE,
    stub=struct.pack("<II", 0x58000050, 0xD61F0200),  # ldr x16, 8 bytes on; br x16
    links={
        261: _distance,  # PREL32
        275: _page,  # ADR_PREL_PG_HI21
        277: partial(_in_page, shift=0),  # ADD_ABS_LO12_NC, then LDST8 to LDST128
        278: partial(_in_page, shift=0),
        284: partial(_in_page, shift=1),
        285: partial(_in_page, shift=2),
        286: partial(_in_page, shift=3),
        299: partial(_in_page, shift=4),
        282: _branch,  # JUMP26
        283: _branch,  # CALL26
    },
    calls=frozenset({282, 283}),
)
MACHINES = {"x86_64": X86_64, "aarch64": AARCH64}
HOST = MACHINES.get(platform.machine())
