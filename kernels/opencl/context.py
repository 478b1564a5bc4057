"""One device at work: its queue, its memory, the programs built for it.

Knows nothing of ops. Every failure of the driver comes out as a BackendError.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from edgellm.errors import BackendError, DriverFault, OutOfDeviceMemory
from edgellm.kernels.opencl.binaries import Binaries, OpenStore
from edgellm.kernels.opencl.sources import KernelKey, program_text
from edgellm.kernels.opencl.variant import Variant, language

_CONTENT_UNDEFINED = cl.mem_migration_flags.CONTENT_UNDEFINED


class Context:
    """A device with an in-order queue. open_store: for built programs; None builds each time."""

    def __init__(self, device: Any, variant: Variant, open_store: OpenStore | None) -> None:
        self.device, self.variant, self.open_store = device, variant, open_store
        with faults(f"cannot use the OpenCL device {device.name.strip()}"):
            self._context = cl.Context([device])
            self.queue = cl.CommandQueue(self._context)
            self._binaries = Binaries(self._context, device, open_store)
        self._programs: dict[str, Any] = {}
        self._lock = threading.Lock()

    def kernel(self, key: KernelKey) -> Any:
        """A kernel object of its own, with arguments of its own. DriverFault has the build log."""
        text = program_text(key, self.variant)
        with self._lock:
            if text not in self._programs:
                self._programs[text] = self._build(text, key)
        try:
            kernel = cl.Kernel(self._programs[text], key.function)
            self._check_group(kernel, key)
        except cl.Error as error:  # some drivers finish building here
            if "INVALID_KERNEL_NAME" in str(error):
                raise BackendError(
                    f"the opencl backend has no kernel {key.function} yet: use --backend cpu"
                ) from None
            raise self._cannot_build(key, error) from None
        return kernel

    def _build(self, text: str, key: KernelKey) -> Any:
        try:
            return self._binaries.build(text, [f"-cl-std={language(self.variant)}"])
        except cl.Error as error:
            raise self._cannot_build(key, error) from None

    def _check_group(self, kernel: Any, key: KernelKey) -> None:
        """A kernel that takes many registers may run in smaller groups only than the device has."""
        info = cl.kernel_work_group_info
        most = kernel.get_work_group_info(info.WORK_GROUP_SIZE, self.device)
        own = kernel.get_work_group_info(info.COMPILE_WORK_GROUP_SIZE, self.device)
        needed = int(np.prod(own)) or self.variant.items
        if needed > most:
            raise self._cannot_build(key, f"for groups of {needed}, only of {most} work-items")

    def _cannot_build(self, key: KernelKey, reason: object) -> DriverFault:
        return DriverFault(
            f"the driver of {self.device.name.strip()} cannot build {key.source}.cl: update it, "
            f"choose another device, or use --backend cpu\n{reason}"
        )

    def room(self, size: int, what: str = "one buffer") -> Any:
        """Memory of the device, `size` bytes of anything.

        It is asked for now, where some drivers would wait until it is used and then have none.
        """
        self._check_size(size, what)
        with faults(f"no device memory for {size / 2**20:.0f} MiB of {what}"):
            buffer = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, max(4, size))
            cl.enqueue_migrate_mem_objects(self.queue, [buffer], _CONTENT_UNDEFINED)
            return buffer

    def pinned(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array of this process that the device copies to while the host goes on.

        Some drivers, NVIDIA's among them, wait for a copy to any other memory.
        """
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        access = cl.map_flags.READ | cl.map_flags.WRITE
        with faults(f"no memory for {size / 2**20:.0f} MiB of results"):
            buffer = cl.Buffer(self._context, flags, max(4, size))
            array: npt.NDArray[Any]
            array, _ = cl.enqueue_map_buffer(self.queue, buffer, access, 0, shape, dtype)
        return array

    def upload(self, data: npt.NDArray[Any], what: str) -> Any:
        """A copy on the device that kernels only read."""
        self._check_size(data.nbytes, what)
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        with faults(f"no device memory for {data.nbytes / 2**20:.0f} MiB of {what}"):
            return cl.Buffer(self._context, flags, hostbuf=np.ascontiguousarray(data))

    def _check_size(self, size: int, what: str) -> None:
        most = int(self.device.max_mem_alloc_size)
        if size > most:
            raise OutOfDeviceMemory(
                f"{what} takes {size / 2**20:.0f} MiB and {self.device.name.strip()} gives at most "
                f"{most / 2**20:.0f} MiB at once: use a smaller model or context, or --backend cpu"
            )


@contextmanager
def faults(what: str) -> Iterator[None]:
    """Turns what the driver complains of into a BackendError that begins with `what`."""
    try:
        yield
    except cl.Error as error:
        # pyopencl's MemoryError is what any call may find missing: some drivers allocate late.
        kind = OutOfDeviceMemory if isinstance(error, cl.MemoryError) else BackendError
        raise kind(f"{what}: {error}. Put fewer layers on the GPU, or use --backend cpu") from None
