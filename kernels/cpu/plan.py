"""Kernel calls before addresses are known: what each reads, writes and is called with.

Knows nothing of ops; the lowerings make a Plan from a Program and table.py turns it into memory.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgellm.errors import BackendError
from edgellm.kernels.cpu import layout
from edgellm.kernels.cpu.objects import KernelKey
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.program import OpCall, Program, Rows, Value, Weight


@dataclass(frozen=True, eq=False)
class Buffer:
    """Memory that one kernel writes and later ones read: `row_bytes` for each row.

    0 bytes stand for memory that lies elsewhere, such as a layer's key-value cache.
    """

    rows: Rows
    row_bytes: int


@dataclass(frozen=True)
class BufferAddress:
    """A word that is where a buffer will lie."""

    buffer: Buffer


Word = int | BufferAddress
# Threads share (rows of this step word) * (parts of a row) evenly, in order.
Partition = tuple[int, int]


@dataclass(frozen=True)
class KernelCall:
    """One row of the op table before addresses are known.

    partition: how threads share the work, where another call that shares the same way may follow
    without waiting: then each thread reads only what it wrote itself. weight: address and bytes of
    what is read whole, in order, each thread its even share.
    """

    key: KernelKey
    words: tuple[Word, ...]
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    partition: Partition | None = None
    weight: tuple[int, int] | None = None


class Plan:
    """Kernel calls in order, the buffers of each value, and arrays that must stay alive.

    draws: further calls that draw tokens from the logits, where they are drawn in a step.
    """

    def __init__(self, program: Program, kv: KVStorage) -> None:
        self.kv = kv
        self.calls: list[KernelCall] = []
        self.draws: list[KernelCall] = []
        self.buffers: dict[Value, Buffer] = {}
        self.quantized: dict[Value, Buffer] = {}
        self.sums: dict[Value, tuple[Value, Value]] = {}  # of adds left to the next norm
        self.caches = [Buffer("tokens", 0) for _ in kv.keys]
        self.keep: list[npt.NDArray[np.float32]] = []
        self.experts_on_disk = program.experts_on_disk
        self._written: set[Buffer] = set(self.caches)
        self._outputs = set(program.outputs.values())
        self._readers: dict[Value, list[OpCall]] = defaultdict(list)
        for call in program.calls:
            for value in call.inputs:
                self._readers[value].append(call)

    @property
    def table(self) -> list[KernelCall]:
        """All calls, those that draw behind the others."""
        return [*self.calls, *self.draws]

    def readers(self, value: Value) -> Sequence[OpCall]:
        """The ops that read a value, in order."""
        return self._readers[value]

    def wants_int8(self, value: Value) -> bool:
        """Whether a product with block-format weights reads it."""
        return any(_reads_int8(call, value) for call in self._readers[value])

    def wants_float(self, value: Value) -> bool:
        """Whether anything else reads it."""
        others = (not _reads_int8(call, value) for call in self._readers[value])
        return value in self._outputs or any(others)

    def of(self, value: Value) -> BufferAddress:
        return BufferAddress(self.buffers[value])

    def new(self, value: Value) -> BufferAddress:
        """Room for a value as float32 rows."""
        self.buffers[value] = Buffer(value.rows, 4 * layout.padded(value.width))
        return self.of(value)

    def scratch(self, value: Value) -> BufferAddress:
        """Room for another form of a value, as float32 rows."""
        return BufferAddress(Buffer(value.rows, 4 * layout.padded(value.width)))

    def new_int8(self, value: Value) -> BufferAddress:
        """Room for a value as quantised rows."""
        self.quantized[value] = Buffer(value.rows, layout.activation_row_bytes(value.width))
        return BufferAddress(self.quantized[value])

    def emit(
        self,
        key: KernelKey,
        *words: Word,
        partition: Partition | None = None,
        stores: tuple[Buffer, ...] = (),
        loads: tuple[Buffer, ...] = (),
        weight: Weight | None = None,
    ) -> None:
        """Appends a call. Buffers among its words that no earlier call wrote are its outputs.

        stores, loads: what it writes and reads beside those. weight: what is read in order.
        """
        used = [w.buffer for w in words if isinstance(w, BufferAddress)]
        reads = tuple(b for b in used if b in self._written)
        writes = tuple(b for b in used if b not in self._written)
        self._written.update(writes)
        read = None if weight is None else (int(weight.data.ctypes.data), weight.data.nbytes)
        self.calls.append(KernelCall(key, words, reads + loads, writes + stores, partition, read))

    def vector(self, weight: Weight | None) -> int:
        """Address of a float32 vector, padded so that whole SIMD words may be read; 0 for none."""
        return 0 if weight is None else self.matrix(floats(weight).reshape(1, -1))

    def matrix(self, values: npt.NDArray[np.float32]) -> int:
        """Address of a copy of a small matrix, its rows padded with zeros."""
        rows, columns = values.shape
        copy = np.zeros((rows, layout.padded(columns)), np.float32)
        copy[:, :columns] = values
        self.keep.append(copy)
        return int(copy.ctypes.data)


def floats(weight: Weight) -> npt.NDArray[np.float32]:
    """The numbers of a small float32 weight, (rows, columns)."""
    if weight.format.name != "F32":
        raise BackendError(f"{weight.name}: vectors must be F32, not {weight.format.name}")
    return weight.data.view(np.float32).reshape(weight.rows, weight.columns)


def _reads_int8(call: OpCall, value: Value) -> bool:
    is_operand = call.op in ("matmul", "moe_matmul", "head_matmul") and call.inputs[0] == value
    return is_operand and call.weights[0].format.unpack is not None


def buffer_bytes(buffer: Buffer, rows: Mapping[Rows, int]) -> int:
    """Room for so many rows, whole cache lines."""
    return -(-buffer.row_bytes * rows[buffer.rows] // 64) * 64
