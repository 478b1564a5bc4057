"""Backends that all tests of this room share, so that each kernel is loaded once."""

from collections.abc import Iterator, Mapping

import pytest

from edgellm.config import cache_dir
from edgellm.kernels.cpu import CpuBackend


@pytest.fixture(scope="session")
def backends() -> Iterator[Mapping[int, CpuBackend]]:
    """By number of threads wanted. Kernels come from the user's own cache and go there."""
    made = {threads: CpuBackend(cache_dir(), threads) for threads in (1, 2)}
    yield made
    for backend in made.values():
        backend.close()


@pytest.fixture(scope="session")
def backend(backends: Mapping[int, CpuBackend]) -> CpuBackend:
    """Two threads, where the machine has them."""
    return backends[2]
