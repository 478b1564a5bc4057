"""One device for all tests of this room, under each way that kernels are cut for devices.

Drivers that the test extra installs make a device of the processor: all kernels run there, the ones
cut for GPUs too.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

pytest.importorskip("pyopencl", reason="the test extra installs pyopencl and drivers")

from edgellm.config import cache_dir
from edgellm.kernels.cpu.private_folder import PrivateFolder
from edgellm.kernels.opencl import OpenCLBackend
from edgellm.kernels.opencl.variant import VARIANTS


@pytest.fixture(scope="session")
def cache() -> Path:
    """The user's own folder of built programs, so that a second run builds nothing."""
    folder = cache_dir() / "opencl"
    PrivateFolder(folder)
    return folder


@pytest.fixture(scope="session")
def backends(opencl: None, cache: Path) -> Iterator[Mapping[str, OpenCLBackend]]:
    """By name of the variant."""
    made = {
        name: OpenCLBackend(cache, variant=variant, warms_up=False)
        for name, variant in VARIANTS.items()
    }
    yield made
    for backend in made.values():
        backend.close()


@pytest.fixture(scope="session")
def backend(backends: Mapping[str, OpenCLBackend]) -> OpenCLBackend:
    """The variant for processors."""
    return backends["cpu"]
