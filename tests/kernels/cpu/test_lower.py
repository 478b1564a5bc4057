"""From programs to op tables: what is refused, and where buffers lie."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from edgellm.errors import BackendError
from edgellm.kernels.cpu.lower import lower
from edgellm.kernels.cpu.plan import Buffer, KernelCall
from edgellm.kernels.cpu.table import place, waits
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import OpCall, Rows
from tests.kernels.cpu.programs import decoder, rows_of, storage

ROWS: Mapping[Rows, int] = {"tokens": 5, "outputs": 2}


def test_an_op_without_a_kernel_is_named() -> None:
    b = Builder()
    program = b.finish(logits=rows_of(b, np.ones((2, 4), np.float32)))
    strange = replace(program, calls=(*program.calls, OpCall("tea", (), (), None, {})))
    with pytest.raises(BackendError, match="'tea'"):
        lower(strange, storage(program, 0))


@st.composite
def call_lists(draw: st.DrawFn) -> tuple[list[KernelCall], list[Buffer]]:
    """Calls that each read a few earlier buffers, and the buffers to keep."""
    buffers: list[Buffer] = []
    calls = []
    for _ in range(draw(st.integers(1, 25))):
        reads = draw(st.lists(st.sampled_from(buffers), max_size=3)) if buffers else []
        writes = [
            Buffer(draw(st.sampled_from(("tokens", "outputs"))), draw(st.integers(1, 300)))
            for _ in range(draw(st.integers(0 if buffers else 1, 2)))
        ]
        buffers += writes
        partition = draw(st.sampled_from((None, (0, 1), (0, 4))))
        calls.append(KernelCall(("k",), (), tuple(reads), tuple(writes), partition))
    return calls, draw(st.lists(st.sampled_from(buffers), max_size=3))


@given(call_lists())
def test_live_buffers_do_not_overlap(drawn: tuple[list[KernelCall], list[Buffer]]) -> None:
    calls, kept = drawn
    offsets, size = place(calls, waits(calls), kept, ROWS)
    written = {b: i for i, call in enumerate(calls) for b in call.writes}
    last = {b: i for i, call in enumerate(calls) for b in (*call.reads, *call.writes)}
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


@given(call_lists())
def test_no_call_meets_memory_in_use_without_a_wait(
    drawn: tuple[list[KernelCall], list[Buffer]],
) -> None:
    calls, kept = drawn
    wait_after = waits(calls)
    offsets, _ = place(calls, wait_after, kept, ROWS)
    assert wait_after[-1]

    def cells(buffers: tuple[Buffer, ...]) -> set[int]:
        return {
            cell
            for b in buffers
            for cell in range(offsets[b], offsets[b] + b.row_bytes * ROWS[b.rows])
        }

    for j, later in enumerate(calls):
        for i in range(j - 1, -1, -1):
            if wait_after[i]:
                break
            earlier = calls[i]
            shared = {*later.reads, *later.writes} & {*earlier.reads, *earlier.writes}
            alike = earlier.partition is not None and earlier.partition == later.partition
            own = cells(tuple(shared)) if alike else set()
            met = cells(later.writes) & (cells(earlier.reads) | cells(earlier.writes))
            met |= cells(later.reads) & cells(earlier.writes)
            assert met <= own


def test_products_of_one_input_run_without_a_wait_between() -> None:
    program = decoder(1)
    result = lower(program, storage(program, 1))
    wait_after = waits(result.calls)
    names = [call.key[0] for call in result.calls]
    first = next(i for i, name in enumerate(names) if name.endswith("matmul"))
    assert names[first : first + 3] == [names[first]] * 3
    assert wait_after[first : first + 3] == [False, False, True]


def test_room_is_used_again() -> None:
    def arena(layers: int) -> int:
        program = decoder(layers)
        result = lower(program, storage(program, 1))
        kept = [result.buffers[value] for value in program.outputs.values()]
        return place(result.calls, waits(result.calls), kept, ROWS)[1]

    assert arena(12) == arena(3)
