"""Python is touched once per step, however many layers there are."""

import sys
from types import FrameType
from typing import Any

import numpy as np

from edgellm.kernels.cpu import CpuBackend
from tests.kernels.cpu.programs import decoder, pack, storage, streams


def events_per_step(backend: CpuBackend, layers: int) -> int:
    """Calls and returns that the interpreter sees in one decode step."""
    program = decoder(layers)
    (stream,) = streams(np.random.default_rng(0), 1, 8, 1)
    executable = backend.load(program, storage(program, len(stream.tables[0])))
    executable.run(pack([(stream, 4)], [3]))
    batch = pack([(stream, 1)], [0])
    count = 0

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        executable.run(batch)
    finally:
        sys.setprofile(before)
    return count


def test_events_do_not_grow_with_layers(backend: CpuBackend) -> None:
    few, many = events_per_step(backend, 2), events_per_step(backend, 12)
    assert 0 < few == many < 300
