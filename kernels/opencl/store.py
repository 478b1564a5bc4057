"""Blocks of keys and values on a device: copied, read and written whole.

Knows nothing of what lies in a block or of who owns it.
"""

from typing import Any

import numpy as np
import pyopencl as cl

from edgellm.kernels.kv import KVStorage
from edgellm.kernels.opencl.context import Context, faults
from edgellm.kernels.program import Program


class DeviceStore:
    """keys, values, states: a buffer for each layer, as long as the arrays of a KVStorage.

    The blocks of KV group None are slots of recurrent states.
    """

    def __init__(self, context: Context, program: Program, kv: KVStorage) -> None:
        self._queue = context.queue
        self.keys = [context.room(array.nbytes) for array in kv.keys]
        self.values = [context.room(array.nbytes) for array in kv.values]
        self.states = [context.room(array.nbytes) for array in kv.states]
        # By KV group: each layer's buffers, and the bytes of a block in them; None: of a state.
        self._parts: dict[int | None, list[tuple[Any, int]]] = {
            group: [] for group in (None, *range(len(program.kv_groups)))
        }
        for layer, shape in enumerate(program.kv_layers):
            arrays, buffers = (kv.keys, kv.values), (self.keys, self.values)
            for array, buffer in zip(arrays, buffers, strict=True):
                size = array[layer].nbytes // max(1, len(array[layer]))
                if size:  # a layer may lie elsewhere, or have no values of its own
                    self._parts[shape.group].append((buffer[layer], size))
        for state, room in zip(kv.states, self.states, strict=True):
            if state.nbytes:
                self._parts[None].append((room, state.nbytes // len(state)))

    def copy(self, group: int | None, source: int, target: int) -> None:
        """Makes block `target` of a group the same as `source`, in all of its layers."""
        with faults("the OpenCL device failed to copy a block"):
            for buffer, size in self._parts[group]:
                cl.enqueue_copy(
                    self._queue, buffer, buffer, byte_count=size, src_offset=source * size,
                    dst_offset=target * size,
                )  # fmt: skip

    def block_bytes(self, group: int | None) -> int:
        """Bytes of what `read` gives."""
        return sum(size for _, size in self._parts[group])

    def read(self, group: int | None, block: int) -> bytes:
        """What a block stores, layer by layer, keys before values."""
        parts = []
        with faults("the OpenCL device failed to read a block"):
            for buffer, size in self._parts[group]:
                part = np.empty(size, np.uint8)
                cl.enqueue_copy(self._queue, part, buffer, src_offset=block * size)
                parts.append(part.tobytes())
        return b"".join(parts)

    def write(self, group: int | None, block: int, data: bytes) -> None:
        """Puts back what `read` gave."""
        start = 0
        with faults("the OpenCL device failed to write a block"):
            for buffer, size in self._parts[group]:
                part = np.frombuffer(data, np.uint8, size, start)
                cl.enqueue_copy(self._queue, buffer, part, dst_offset=block * size)
                start += size
