"""The index arrays of a step in one piece of the device's memory, so that one copy brings them all.

Knows nothing of what they say.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyopencl as cl

from edgellm.kernels.opencl.context import Context
from edgellm.kernels.opencl.indices import Int32
from edgellm.kernels.opencl.plan import Index

_LEAST = 16  # numbers that there is room for, so that growing is rare


class Staging:
    """Buffers by name, which `reserve` may replace: parts of one."""

    def __init__(self, context: Context, names: Collection[Index]) -> None:
        self._context = context
        self._sizes = dict.fromkeys(sorted(names), 0)
        self._starts: dict[Index, int] = {}
        self._total = 0
        self._whole: Any = None
        self.buffers: dict[Index, Any] = {}

    def fits(self, arrays: Mapping[Index, Int32]) -> bool:
        """Whether there is room for them."""
        return all(arrays[name].size <= size for name, size in self._sizes.items())

    def reserve(self, arrays: Mapping[Index, Int32]) -> None:
        """Makes room for arrays of these sizes, none of which is there any more."""
        for name, size in self._sizes.items():
            self._sizes[name] = max(size, _LEAST, 1 << max(0, arrays[name].size - 1).bit_length())
        step = max(1, int(self._context.device.mem_base_addr_align) // 32)  # bits; here numbers
        self._total = 0
        for name, size in self._sizes.items():
            self._starts[name] = self._total
            self._total += -(-size // step) * step
        self._whole = self._context.room(4 * self._total)
        self.buffers = {
            name: self._whole.get_sub_region(4 * self._starts[name], 4 * size)
            for name, size in self._sizes.items()
        }

    def send(self, arrays: Mapping[Index, Int32]) -> Any:
        """Enqueues the copy; its event must be kept, or waits where it is forgotten."""
        host = np.zeros(self._total, np.int32)
        for name, start in self._starts.items():
            host[start : start + arrays[name].size] = arrays[name]
        return cl.enqueue_copy(self._context.queue, self._whole, host, is_blocking=False)
