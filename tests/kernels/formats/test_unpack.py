"""`unpack` of every block format: it agrees with `dequantize`, as Python and compiled by Numba."""

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numba import njit

from edgellm.kernels.formats import FORMATS, Format
from edgellm.kernels.formats.format import Blocks, Values
from edgellm.kernels.formats.scalar import half
from edgellm.kernels.formats.words import Table
from tests.kernels.formats.blocks import put_half, random_blocks

BLOCKS = [fmt for fmt in FORMATS.values() if fmt.unpack is not None]
every_format = pytest.mark.parametrize("fmt", BLOCKS, ids=lambda fmt: fmt.name)
GUARD = 7  # what lies around the outputs


def run(unpack: Callable[..., None], fmt: Format, block: Blocks) -> tuple[Any, Values, Values]:
    """q, scales and mins of one block; checks that nothing else was written."""
    groups = fmt.block_size // fmt.group_size
    q = np.full(fmt.block_size + 16, GUARD, np.int8)
    scales = np.full(groups + 16, GUARD, np.float32)
    mins = np.full(groups + 16, GUARD, np.float32)
    unpack(block, q[8:-8], scales[8:-8], mins[8:-8])
    for written in (q, scales, mins):
        assert (written[:8] == GUARD).all() and (written[-8:] == GUARD).all()
    assert fmt.has_min or (mins == GUARD).all()
    return q[8:-8], scales[8:-8], mins[8:-8]


def combine(fmt: Format, q: Any, scales: Values, mins: Values) -> Values:
    with np.errstate(over="ignore"):  # the largest scale of MXFP4
        values: Values = scales[:, None] * q.reshape(len(scales), -1).astype(np.float32)
    if fmt.has_min:
        values += mins[:, None]
    return values.reshape(-1)


def expect_agreement(fmt: Format, unpack: Callable[..., None], blocks: Blocks) -> None:
    for block, want in zip(blocks, fmt.dequantize(blocks), strict=True):
        q, scales, mins = run(unpack, fmt, block)
        assert fmt.name == "Q8_0" or q.min() >= -127
        assert np.array_equal(combine(fmt, q, scales, mins), want)


@every_format
def test_unpack_agrees_with_dequantize(fmt: Format) -> None:
    assert fmt.unpack is not None
    expect_agreement(fmt, fmt.unpack, random_blocks(fmt, 24))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_unpack_agrees_on_any_block(data: st.DataObject) -> None:
    fmt = data.draw(st.sampled_from(BLOCKS))
    content = data.draw(st.binary(min_size=fmt.type_size, max_size=fmt.type_size))
    block = np.frombuffer(content, np.uint8)[None].copy()
    finite = st.integers(0, 0x7BFF) | st.integers(0x8000, 0xFBFF)
    put_half(fmt, block, np.array([[data.draw(finite), data.draw(finite)]]))
    assert fmt.unpack is not None
    expect_agreement(fmt, fmt.unpack, block)


@njit(inline="always")  # type: ignore[untyped-decorator]
def compiled_half(low: int, high: int) -> Any:
    """An IEEE half from its bytes, in arithmetic."""
    exponent, mantissa = high >> 2 & 31, (high & 3) << 8 | low
    if exponent == 0:
        value = mantissa * 2.0**-24
    else:
        value = (1024 + mantissa) * 2.0 ** (exponent - 25)
    return np.float32(-value if high >> 7 else value)


INTRINSICS: dict[Any, Any] = {half: compiled_half}


def compiled(function: Callable[..., Any]) -> Any:
    """`function` compiled, with the plain functions and tables that it names, as a backend does."""
    scope = dict(function.__globals__)
    for name in set(function.__code__.co_names) & scope.keys():
        value = scope[name]
        if isinstance(value, Table):
            scope[name] = value.array
        elif isinstance(value, types.FunctionType):
            scope[name] = INTRINSICS[value] if value in INTRINSICS else compiled(value)
    return njit(types.FunctionType(function.__code__, scope, function.__name__))


@every_format
def test_unpack_compiles_and_agrees(fmt: Format) -> None:
    assert fmt.unpack is not None
    expect_agreement(fmt, compiled(fmt.unpack), random_blocks(fmt, 200, seed=1))
