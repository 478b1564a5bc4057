"""Attention to what comes after a token, over several tiles and beside other sequences."""

from collections.abc import Mapping

import numpy as np
import pytest

from edgellm.kernels import reference
from edgellm.kernels.opencl import OpenCLBackend
from edgellm.kernels.opencl.variant import VARIANTS
from tests.kernels.cpu.programs import pack, storage, streams
from tests.kernels.cpu.test_bidirectional import LENGTHS, program


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("window", "alibi"), [(None, 8.0), (1, None), (300, None)])
def test_what_comes_after_is_seen(
    backends: Mapping[str, OpenCLBackend], variant: str, window: int | None, alibi: float | None
) -> None:
    recorded = program(window, alibi)
    sequences = streams(np.random.default_rng(6), len(LENGTHS), max(LENGTHS), 1)
    blocks = 1 + max(int(t.max()) for s in sequences for t in s.tables)
    batch = pack(list(zip(sequences, LENGTHS, strict=True)))
    stores = [storage(recorded, blocks) for _ in range(2)]
    got = backends[variant].load(recorded, stores[0]).run(batch)["hidden"]
    want = reference.load(recorded, stores[1]).run(batch)["hidden"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
