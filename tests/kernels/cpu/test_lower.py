"""From programs to op tables: what is refused, and where buffers lie."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from edgellm.errors import BackendError
from edgellm.kernels.cpu.lower import Buffer, KernelCall, place, plan
from edgellm.kernels.ops import Builder, OpCall, Rows
from tests.kernels.cpu.programs import decoder, rows_of, storage

ROWS: Mapping[Rows, int] = {"tokens": 5, "outputs": 2}


def test_an_op_without_a_kernel_is_named() -> None:
    b = Builder()
    program = b.finish(logits=rows_of(b, np.ones((2, 4), np.float32)))
    strange = replace(program, calls=(*program.calls, OpCall("tea", (), (), None, {})))
    with pytest.raises(BackendError, match="'tea'"):
        plan(strange, storage(program, 0))


@st.composite
def call_lists(draw: st.DrawFn) -> tuple[list[KernelCall], list[Buffer]]:
    """Calls that each read a few earlier buffers, and the buffers to keep."""
    buffers: list[Buffer] = []
    calls = []
    for _ in range(draw(st.integers(1, 25))):
        reads = draw(st.lists(st.sampled_from(buffers), max_size=3)) if buffers else []
        writes = None
        if not buffers or draw(st.integers(0, 9)):
            writes = Buffer(draw(st.sampled_from(("tokens", "outputs"))), draw(st.integers(1, 300)))
            buffers.append(writes)
        calls.append(KernelCall(("k",), (), tuple(reads), writes))
    return calls, draw(st.lists(st.sampled_from(buffers), max_size=3))


@given(call_lists())
def test_live_buffers_do_not_overlap(drawn: tuple[list[KernelCall], list[Buffer]]) -> None:
    calls, kept = drawn
    offsets, size = place(calls, kept, ROWS)
    written = {call.writes: i for i, call in enumerate(calls) if call.writes}
    last = {b: i for i, call in enumerate(calls) for b in (*call.reads, call.writes) if b}
    last |= dict.fromkeys(kept, len(calls))
    assert set(offsets) == set(written)

    def extent(buffer: Buffer) -> range:
        start = offsets[buffer]
        return range(start, start + buffer.row_bytes * ROWS[buffer.rows])

    for a in offsets:
        assert offsets[a] % 64 == 0 and 0 <= offsets[a] and extent(a).stop <= size
        for b in offsets:
            # b is written while a still lives: the call that writes b may read a.
            if a is not b and written[a] <= written[b] <= last[a]:
                assert extent(a).stop <= extent(b).start or extent(b).stop <= extent(a).start


def test_room_is_used_again() -> None:
    def arena(layers: int) -> int:
        program = decoder(layers)
        result = plan(program, storage(program, 1))
        kept = [result.buffers[value] for value in program.outputs.values()]
        return place(result.calls, kept, ROWS)[1]

    assert arena(12) == arena(3)
