"""Images: what LLVM emits, made to run anywhere in memory without it."""

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st
from llvmlite import binding

from edgellm.errors import BackendError
from edgellm.kernels.cpu.compile import target_machine
from edgellm.kernels.cpu.image import CAN_FLATTEN, Image, Mapping, flatten
from edgellm.kernels.cpu.relocation import AARCH64, PAGE

pytestmark = pytest.mark.skipif(not CAN_FLATTEN, reason="images are for Linux on some processors")

INTEGER_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def compiled(ir: str) -> bytes:
    return bytes(target_machine().emit_object(binding.parse_assembly(ir)))


def run(image: Image, argument: int) -> int:
    mapping = Mapping([image])
    return int(INTEGER_FUNCTION(mapping.addresses[0])(argument))


TABLE = """
@table = internal constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
define i64 @other(i64 %i) noinline { ret i64 7 }
define i64 @pick(i64 %i) {
  %place = getelementptr [4 x i64], ptr @table, i64 0, i64 %i
  %value = load i64, ptr %place
  %seven = call i64 @other(i64 %i)
  %sum = add i64 %value, %seven
  ret i64 %sum
}
"""
LIBRARY = """
declare i64 @labs(i64)
declare i32 @toupper(i32)
define i64 @absolute(i64 %x) {
  %one = call i64 @labs(i64 %x)
  %narrow = trunc i64 %one to i32
  %two = call i32 @toupper(i32 %narrow)
  %three = call i64 @labs(i64 %one)
  %wide = zext i32 %two to i64
  %sum = add i64 %wide, %three
  ret i64 %sum
}
"""


def test_code_finds_its_constants_and_its_own_functions() -> None:
    image = flatten(compiled(TABLE), "pick")
    assert [run(image, i) for i in range(4)] == [17, 27, 37, 47]
    assert image.imports == ()


def test_code_calls_the_c_library() -> None:
    image = flatten(compiled(LIBRARY), "absolute")
    assert sorted(name for name, _ in image.imports) == ["labs", "toupper"]
    assert run(image, -ord("a")) == ord("A") + ord("a")


def test_several_images_share_memory() -> None:
    images = [flatten(compiled(TABLE), "pick"), flatten(compiled(LIBRARY), "absolute")]
    mapping = Mapping(images)
    assert INTEGER_FUNCTION(mapping.addresses[0])(1) == 27
    assert INTEGER_FUNCTION(mapping.addresses[1])(-200) == 400
    assert all(address % 16 == 0 for address in mapping.addresses)


def test_no_image_is_no_error() -> None:
    assert Mapping([]).addresses == ()


def test_a_function_that_the_library_lacks_is_named() -> None:
    image = flatten(compiled(LIBRARY.replace("labs", "no_such_function")), "absolute")
    with pytest.raises(BackendError, match="no_such_function"):
        Mapping([image])


@pytest.mark.parametrize(
    ("ir", "message"),
    [
        ("@x = global i64 1\ndefine ptr @f() { ret ptr @x }", "no code and no constant"),
        ("@x = external global i64\ndefine ptr @f() { ret ptr @x }", "is not relative"),
        ("define i64 @g(i64 %i) { ret i64 %i }", "f is missing"),
    ],
    ids=["data that is written", "data of somebody else", "no such function"],
)
def test_what_an_image_cannot_hold_is_refused(ir: str, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        flatten(compiled(ir), "f")


def test_a_file_of_another_kind_is_refused() -> None:
    body = bytearray(compiled(TABLE))
    struct.pack_into("<H", body, 18, 243)  # RISC-V
    for wrong in (b"", b"MZ" + bytes(100), bytes(body)):
        with pytest.raises(BackendError, match="not an object file of this processor"):
            flatten(wrong, "pick")


@given(
    st.builds(
        Image,
        st.binary(max_size=200),
        st.integers(0, 200),
        st.lists(st.tuples(st.text("abcdefgh", min_size=1), st.integers(0, 192)), max_size=5).map(
            tuple
        ),
    )
)
def test_packing_loses_nothing(image: Image) -> None:
    assert Image.unpack(image.pack()) == image


# ---------------------------------------------------------------- for AArch64, read and not run


def arm_image(ir: str, symbol: str) -> Image:
    triple = "aarch64-unknown-linux-gnu"
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(triple)
    machine = target.create_target_machine(opt=3, reloc="pic", codemodel="default", jit=True)
    body = machine.emit_object(binding.parse_assembly(f'target triple = "{triple}"\n{ir}'))
    return flatten(bytes(body), symbol, AARCH64)


def words_of(code: bytes) -> list[tuple[int, int]]:
    """(place, instruction) of each."""
    return list(
        zip(range(0, len(code), 4), struct.unpack(f"<{len(code) // 4}I", code), strict=True)
    )


def signed(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)


def page_of(place: int, word: int) -> int:
    """Where the page begins that an `adrp` is about."""
    pages = signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
    return (place // PAGE + pages) * PAGE


def goal_of(place: int, word: int) -> int:
    """Where a `b` or `bl` goes."""
    return place + 4 * signed(word & 0x3FFFFFF, 26)


def test_arm_code_finds_its_constants_and_its_own_functions() -> None:
    image = arm_image(TABLE, "pick")
    words = words_of(image.code)
    (page,) = (page_of(*at) for at in words if at[1] & 0x9F000000 == 0x90000000)
    starts = {page + (word >> 10 & 0xFFF) for _, word in words if word & 0xFFC00000 == 0x91000000}
    tables = [image.code[start : start + 32] for start in starts]
    assert struct.pack("<4q", 10, 20, 30, 40) in tables
    (call,) = (goal_of(*at) for at in words if at[1] & 0xFC000000 == 0x94000000)
    other = struct.pack("<II", 0x528000E0, 0xD65F03C0)  # mov w0, #7; ret
    assert image.code[call : call + 8] == other
    assert image.imports == ()


def test_arm_code_calls_the_c_library_through_stubs() -> None:
    image = arm_image(LIBRARY, "absolute")
    calls = [goal_of(*at) for at in words_of(image.code) if at[1] & 0x7C000000 == 0x14000000]
    slots = dict(image.imports)
    assert sorted(slots) == ["labs", "toupper"] and len(calls) == 3
    assert {call + 8 for call in calls} == set(slots.values())
    for call in calls:
        assert image.code[call : call + 16] == AARCH64.stub + bytes(8)


@pytest.mark.parametrize(
    ("ir", "message"),
    [
        ("@x = global i64 1\ndefine ptr @f() { ret ptr @x }", "no code and no constant"),
        ("@x = external global i64\ndefine ptr @f() { ret ptr @x }", "is not relative"),
    ],
    ids=["data that is written", "data of somebody else"],
)
def test_what_an_arm_image_cannot_hold_is_refused(ir: str, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        arm_image(ir, "f")


@dataclass(frozen=True)
class Linked:
    """bits: those of an instruction that a link writes. read(place, word): what
    they say, which is wanted(goal)."""

    bits: int
    read: Callable[[int, int], int]
    wanted: Callable[[int], int]


def in_page(size: int) -> Linked:
    """Of a load of so many bytes, or an addition."""
    return Linked(0xFFF << 10, lambda _, word: (word >> 10 & 0xFFF) * size, lambda g: g % PAGE)


BRANCH = Linked(0x3FFFFFF, goal_of, lambda goal: goal)
LINKED = {
    261: Linked(0xFFFFFFFF, lambda place, word: place + signed(word, 32), lambda goal: goal),
    275: Linked(0x60FFFFE0, page_of, lambda goal: goal // PAGE * PAGE),
    **{277: in_page(1), 278: in_page(1), 284: in_page(2), 285: in_page(4), 286: in_page(8)},
    **{299: in_page(16), 282: BRANCH, 283: BRANCH},
}


@given(st.integers(0, 1 << 13), st.integers(0, 1 << 20), st.integers(0, (1 << 32) - 1))
def test_arm_links_say_where_to_and_leave_the_rest(place: int, goal: int, rest: int) -> None:
    place, goal = 4 * place, 16 * goal
    assert LINKED.keys() == AARCH64.links.keys()
    for number, linked in LINKED.items():
        code = bytearray(place + 4)
        struct.pack_into("<I", code, place, rest & ~linked.bits)
        AARCH64.links[number](code, place, goal)
        (word,) = struct.unpack_from("<I", code, place)
        assert linked.read(place, word) == linked.wanted(goal), number
        assert word & ~linked.bits == rest & ~linked.bits, number
