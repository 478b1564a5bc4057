"""The index arrays of a step in one piece of the device's memory, so that one copy brings them all.

Knows nothing of what they say.
"""

from collections.abc import Collection, Mapping
from itertools import accumulate
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
        """Makes room for arrays of these sizes, none of which is there any more.

        All is as it was where the device has no memory for them.
        """
        sizes = {
            name: max(size, _LEAST, 1 << max(0, arrays[name].size - 1).bit_length())
            for name, size in self._sizes.items()
        }
        step = max(1, int(self._context.device.mem_base_addr_align) // 32)  # bits; here numbers
        steps = [-(-size // step) for size in sizes.values()]
        total = step * sum(steps)
        whole = self._context.room(4 * total)
        starts = dict(zip(sizes, accumulate((step * n for n in steps), initial=0), strict=False))
        self.buffers = {
            name: whole.get_sub_region(4 * starts[name], 4 * size) for name, size in sizes.items()
        }
        self._whole, self._total, self._sizes, self._starts = whole, total, sizes, starts

    def send(self, arrays: Mapping[Index, Int32]) -> Any:
        """Enqueues the copy; its event must be kept, or waits where it is forgotten."""
        host = np.zeros(self._total, np.int32)
        for name, start in self._starts.items():
            host[start : start + arrays[name].size] = arrays[name]
        return cl.enqueue_copy(self._context.queue, self._whole, host, is_blocking=False)
