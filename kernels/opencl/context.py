"""One device at work: its queue, the programs built for it, the weights that lie on it.

Knows nothing of ops. Every failure of the driver comes out as a BackendError.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from edgellm.errors import BackendError, OutOfDeviceMemory
from edgellm.kernels.formats import by_name, dequantize_rows
from edgellm.kernels.opencl.binaries import Binaries, OpenStore
from edgellm.kernels.opencl.sources import KernelKey, program_text
from edgellm.kernels.opencl.strips import to_strips
from edgellm.kernels.opencl.variant import Variant, language
from edgellm.kernels.program import Weight


class Context:
    """A device with an in-order queue. open_store: for built programs; None builds each time."""

    def __init__(self, device: Any, variant: Variant, open_store: OpenStore | None) -> None:
        self.device, self.variant = device, variant
        with faults(f"cannot use the OpenCL device {device.name.strip()}"):
            self._context = cl.Context([device])
            self.queue = cl.CommandQueue(self._context)
            self._binaries = Binaries(self._context, device, open_store)
        self._programs: dict[str, Any] = {}
        self._lock = threading.Lock()

    def kernel(self, key: KernelKey) -> Any:
        """A kernel object of its own, with arguments of its own. BackendError has the build log."""
        text = program_text(key, self.variant)
        with self._lock:
            if text not in self._programs:
                self._programs[text] = self._build(text, key)
        try:
            return cl.Kernel(self._programs[text], key.function)
        except cl.LogicError:
            raise BackendError(
                f"the opencl backend has no kernel {key.function} yet: use --backend cpu"
            ) from None

    def _build(self, text: str, key: KernelKey) -> Any:
        try:
            return self._binaries.build(text, [f"-cl-std={language(self.variant)}"])
        except cl.Error as error:
            raise BackendError(
                f"the driver of {self.device.name.strip()} cannot build {key.source}.cl: update "
                f"it, choose another device, or use --backend cpu\n{error}"
            ) from None

    def room(self, size: int) -> Any:
        """Memory of the device, `size` bytes of anything."""
        self._check_size(size, "one buffer")
        with faults(f"no device memory for {size / 2**20:.0f} MiB"):
            return cl.Buffer(self._context, cl.mem_flags.READ_WRITE, max(4, size))

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


class Weights:
    """Weights of one program on the device, each once. Vectors become float32."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._matrices: dict[tuple[int, int, int, int], Any] = {}
        self._vectors: dict[int, Any] = {}
        self._kept: list[npt.NDArray[np.uint8]] = []  # so that no address is used twice

    def matrix(self, weight: Weight, matrices: int = 1, part: slice | None = None) -> Any:
        """In strips (strips.py), each of so many equal matrices in strips of its own.

        part: the rows that are wanted of each.
        """
        rows = (part or slice(None)).indices(weight.rows // matrices)[:2]
        key = weight.data.ctypes.data, matrices, *rows
        if key not in self._matrices:
            strip_rows = self._context.variant.strip_rows
            if weight.format.name == "F64":  # rounded to float32, as the reference does
                fmt = by_name("F32")
                data = dequantize_rows(weight.format, weight.data).view(np.uint8)
            else:
                fmt, data = weight.format, weight.data
            wanted = [matrix[slice(*rows)] for matrix in np.split(data, matrices)]
            strips = np.concatenate([to_strips(fmt, matrix, strip_rows) for matrix in wanted])
            self._matrices[key] = self._context.upload(strips, weight.name)
            self._kept.append(weight.data)
        return self._matrices[key]

    def vector(self, weight: Weight) -> Any:
        """All numbers of a small weight."""
        key = weight.data.ctypes.data
        if key not in self._vectors:
            numbers = dequantize_rows(weight.format, weight.data).reshape(-1)
            self._vectors[key] = self._context.upload(numbers, weight.name)
            self._kept.append(weight.data)
        return self._vectors[key]
