"""Whether a device computes what its variant relies on: extensions are claims, and drivers err."""

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from edgellm.errors import BackendError
from edgellm.kernels.opencl.context import Context, faults
from edgellm.kernels.opencl.sources import KernelKey

Float32 = npt.NDArray[np.float32]
_KEY = KernelKey("probe", "probe")


def check(context: Context) -> None:
    """Runs source/probe.cl; BackendError where it does not build, run, or give what it should."""
    kernel, group = context.kernel(_KEY), context.variant.group
    rng = np.random.default_rng(0)
    q, x = rng.integers(0, 128, (group, 4)), rng.integers(-127, 128, (group, 4))
    halves = rng.integers(0, 31 << 10, group) | rng.integers(0, 2, group) << 15  # finite ones
    halves[0] = 1  # subnormal
    words = [q.astype(np.int8).view(np.uint32), x.astype(np.int8).view(np.uint32), halves]
    given = [context.upload(np.ascontiguousarray(a, np.uint32), "a probe") for a in words]
    numbers = halves.astype(np.uint16).view(np.float16).astype(np.float32)
    sums = np.full(group, _folded(numbers), np.float32)
    expected = [(q * x).sum(axis=1).astype(np.int32), numbers, sums]
    rooms = [context.room(array.nbytes) for array in expected]
    name = context.device.name.strip()
    with faults(f"{name} cannot run a kernel"):
        kernel(context.queue, (group,), (group,), *given, *rooms)
        for room, want in zip(rooms, expected, strict=True):
            got = np.empty_like(want)
            cl.enqueue_copy(context.queue, got, room)
            if not np.array_equal(got, want):
                raise BackendError(
                    f"the driver of {name} computes {got[:4]} where {want[:4]} is right: update "
                    "it, choose another device, or use --backend cpu"
                )


def _folded(numbers: Float32) -> np.float32:
    """As group_sum of source/common.cl does it."""
    while len(numbers) > 1:
        half = len(numbers) // 2
        numbers = numbers[:half] + numbers[half:]
    return np.float32(numbers[0])
