"""Images: what LLVM emits, made to run anywhere in memory without it."""

import ctypes
import struct

import pytest
from hypothesis import given, strategies as st
from llvmlite import binding

from edgellm.errors import BackendError
from edgellm.kernels.cpu.compile import target_machine
from edgellm.kernels.cpu.image import CAN_FLATTEN, Image, Mapping, flatten

pytestmark = pytest.mark.skipif(not CAN_FLATTEN, reason="images are for Linux on x86-64")

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
    struct.pack_into("<H", body, 18, 183)  # AArch64
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
