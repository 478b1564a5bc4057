"""One device for all tests of this room, under each way that kernels are cut for devices.

Drivers that the test extra installs make a device of the processor: all kernels run there, the ones
cut for GPUs too.
"""

from collections.abc import Iterator, Mapping

import pytest

pytest.importorskip("pyopencl", reason="the test extra installs pyopencl and drivers")

from edgellm.config import cache_dir
from edgellm.kernels.cpu.private_folder import PrivateFolder
from edgellm.kernels.opencl import OpenCLBackend
from edgellm.kernels.opencl.binaries import OpenStore
from edgellm.kernels.opencl.variant import VARIANTS


@pytest.fixture(scope="session")
def cache() -> OpenStore:
    """The user's own folders of built programs, so that a second run builds nothing."""
    return lambda key: PrivateFolder(cache_dir() / "opencl" / key)


@pytest.fixture(scope="session")
def backends(opencl: None, cache: OpenStore) -> Iterator[Mapping[str, OpenCLBackend]]:
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
