"""Python is touched once per step, however many layers there are."""

import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

from edgellm.kernels.cpu import CpuBackend
from tests.kernels.cpu.programs import decoder, pack, storage, streams


def events_per_step(backend: CpuBackend, layers: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Calls and returns that the interpreter sees in one decode step.

    The clock stands still: some steps, a time apart, also end with a look at the pace.
    """
    program = decoder(layers)
    (stream,) = streams(np.random.default_rng(0), 1, 8, 1)
    executable = backend.load(program, storage(program, len(stream.tables[0])))
    executable.run(pack([(stream, 4)], [3]))
    batch = pack([(stream, 1)], [0])
    assert backend._team is not None
    monkeypatch.setattr(backend._team.pace, "now", lambda: 0.0)
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


def test_events_do_not_grow_with_layers(
    backend: CpuBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (events_per_step(backend, layers, monkeypatch) for layers in (2, 12))
    assert 0 < few == many < 300
