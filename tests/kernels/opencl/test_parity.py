"""Every op against the reference backend, on random shapes, values and batches."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st

from edgellm.kernels.opencl import OpenCLBackend
from edgellm.kernels.opencl.ops import LOWERINGS
from edgellm.kernels.ops import Builder
from tests.kernels.cpu.cases import CASES, Maker
from tests.kernels.cpu.test_parity import full_precision_gelu, run_both

__all__ = ["full_precision_gelu"]  # a fixture that pytest finds here


def test_every_op_has_a_kernel() -> None:
    assert LOWERINGS.keys() == CASES.keys()


# Each builds programs, so there are few.
@pytest.mark.parametrize("op", sorted({case: op for op, case in CASES.items()}.values()))
@settings(max_examples=4, deadline=None, phases=(Phase.reuse, Phase.generate))
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_op(backends: Mapping[str, OpenCLBackend], op: str, data: Any, seed: int) -> None:
    maker = Maker(data, np.random.default_rng(seed), Builder())
    program = maker.b.finish(logits=CASES[op](maker))
    run_both(backends[maker.pick("cpu", "gpu")], program, maker)
