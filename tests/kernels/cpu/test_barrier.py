"""Threads meet after each op that says so, also where there are more of them than processors."""

from collections.abc import Callable

import numpy as np
import pytest

from edgellm.kernels.cpu import layout
from edgellm.kernels.cpu.atomics import atomic_add
from edgellm.kernels.cpu.objects import Library
from edgellm.kernels.cpu.ops import KERNELS
from edgellm.kernels.cpu.simd import offset, pointer
from edgellm.kernels.cpu.team import Team
from tests.kernels.cpu.crowd import allow_crowd

COUNT = ("count",)
LINE_WORDS = layout.LINE // 8


def make_count() -> Callable[..., None]:
    def count(args, step, thread, threads):  # type: ignore[no-untyped-def]
        """args: a line of each thread: how often it was here, and how often it found others too far
        behind or ahead, or more pieces taken than there are threads.
        """
        lines = pointer(args[0], np.int64)
        mine = lines[LINE_WORDS * thread]
        for other in range(threads):
            if not mine <= lines[LINE_WORDS * other] <= mine + 1:
                lines[LINE_WORDS * thread + 1] += 1
        if atomic_add(offset(args, layout.CLAIMED - 1), 1) >= threads:
            lines[LINE_WORDS * thread + 1] += 1
        lines[LINE_WORDS * thread] = mine + 1

    return count


@pytest.fixture(scope="module")
def library() -> Library:
    made = Library(None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KERNELS, "count", make_count)
        made.load({COUNT})
    return made


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 5, 8])
def test_nobody_goes_on_before_all_are_there(
    library: Library, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_crowd(monkeypatch)
    lines = np.zeros((threads, LINE_WORDS), np.int64)
    step = np.zeros(layout.STEP_WORDS, np.int64)
    made, runs = Team(library, threads), 0
    for num_ops, times in ((1, 1), (1, 50), (2, 50), (7, 1), (7, 50)) * 3:
        table = np.zeros((num_ops, layout.OP_WORDS), np.int64)
        table[:, 0], table[:, 1] = library.address(COUNT), lines.ctypes.data
        table[:, layout.WAIT] = 1
        made.run(table.ctypes.data, num_ops, step.ctypes.data, times)
        runs += num_ops * times
        assert lines[:, 0].tolist() == [runs] * threads
        # A lone thread never waits, so that nothing resets its counts.
        assert threads == 1 or (table[:, layout.CLAIMED] == 0).all()
    assert threads == 1 or not lines[:, 1].any()
    made.close()
