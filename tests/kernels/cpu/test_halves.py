"""Halves without instructions for them: the bits that numpy and the processor give."""

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies
from llvmlite import binding, ir

from edgellm.kernels.cpu.halves import narrow, widen
from edgellm.kernels.cpu.isa import Processor, variant

PLAIN = variant("portable", Processor("x86-64", {}, is_x86=True))
Convert = Callable[[Any], Any]
ALL = np.arange(1 << 16, dtype=np.uint16)
EDGES = (0, 65504, 65520, 65536, 1e6, np.inf, 1e-45, 6e-8)
NAN = np.float32(np.nan)


def loop(module: ir.Module, name: str, source: ir.Type, target: ir.Type, body: Any) -> None:
    """A C function (source, target): converts 8 numbers."""
    kinds = [ir.VectorType(kind, 8).as_pointer() for kind in (source, target)]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    b = ir.IRBuilder(function.append_basic_block())
    value = b.load(function.args[0])
    value.align = 1
    b.store(body(b, value, PLAIN), function.args[1]).align = 1
    b.ret_void()


@pytest.fixture(scope="module")
def converters() -> Iterator[tuple[Convert, Convert]]:
    """widen and narrow of arrays whose length is a multiple of 8."""
    assert not PLAIN.has_half
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = ir.Module()
    loop(module, "widen", ir.IntType(16), ir.FloatType(), widen)
    loop(module, "narrow", ir.FloatType(), ir.IntType(16), narrow)
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(str(module)), machine)
    engine.finalize_object()

    def converter(name: str, source: Any, target: Any) -> Convert:
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
        call = kind(engine.get_function_address(name))

        def convert(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            given, result = values.astype(source), np.empty(len(values), target)
            for i in range(0, len(values), 8):
                call(given[i:].ctypes.data, result[i:].ctypes.data)
            return result

        return convert

    yield converter("widen", np.uint16, np.float32), converter("narrow", np.float32, np.uint16)


def test_every_half_is_widened(converters: tuple[Convert, Convert]) -> None:
    halves = ALL.view(np.float16)
    with np.errstate(invalid="ignore"):  # NumPy warns of signalling NaN on some processors
        want = halves.astype(np.float32).view(np.uint32)
    want[np.isnan(halves)] |= 1 << 22  # processors make NaNs quiet, numpy does not
    np.testing.assert_array_equal(converters[0](ALL).view(np.uint32), want)


def test_what_lies_at_and_between_halves_is_rounded(converters: tuple[Convert, Convert]) -> None:
    halves = ALL[:0x7C00].view(np.float16).astype(np.float32)
    between = (halves[1:] + halves[:-1]) / 2
    values = np.concatenate([halves, between, EDGES]).astype(np.float32)
    values = np.concatenate([values, np.nextafter(values, np.float32(0)), [NAN]])
    values = np.concatenate([values, -values])
    values = np.resize(values, -(-len(values) // 8) * 8)
    with np.errstate(over="ignore"):
        want = values.astype(np.float16)
    np.testing.assert_array_equal(converters[1](values), want.view(np.uint16))


@given(strategies.lists(strategies.floats(width=32), min_size=8, max_size=8))
def test_any_float_is_rounded(converters: tuple[Convert, Convert], numbers: list[float]) -> None:
    values = np.array(numbers, np.float32)
    with np.errstate(over="ignore"):
        want = values.astype(np.float16)
    got = converters[1](values).view(np.float16)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
