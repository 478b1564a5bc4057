"""A program with its memory on a device, and the one call that enqueues all of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from edgellm.kernels.batch import Batch
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.kernels.opencl.context import Context, faults
from edgellm.kernels.opencl.indices import Int32, indices_of
from edgellm.kernels.opencl.plan import (
    Argument,
    Choice,
    Count,
    Index,
    IndexArray,
    Launch,
    Plan,
    Room,
    RoomRows,
    Size,
    place,
)
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.program import ATTENTION_TILE, Program

Float32 = npt.NDArray[np.float32]
_STEPS_KEPT = 64  # kinds of steps, whose launches are looked up once


class Executable:
    """Runs one program on batches of any size. Not for two threads at once.

    A step is enqueued whole, in order; the host waits for its outputs alone.
    """

    def __init__(self, program: Program, plan: Plan, context: Context) -> None:
        self._program, self._plan, self._context = program, plan, context
        self.store = plan.store
        self._outputs = tuple(program.outputs.values())
        self._placed, self._pieces = place(plan, self._outputs)
        self._capacity: dict[RoomRows, int] = {"tokens": 0, "outputs": 0, "parts": 0}
        self._memory: list[Any] = []
        arguments = (a for launch in plan.launches for a in launch.arguments)
        self._used = {a.name for a in arguments if isinstance(a, IndexArray)}
        self._indices: dict[Index, Any] = {}
        self._kernels: dict[tuple[int, KernelKey], Any] = {}
        self._steps: dict[tuple[int, ...], list[tuple[Any, Size, Size]]] = {}  # by counts
        with faults("the OpenCL device cannot hold a step"):
            self._reserve({"tokens": 1, "outputs": 1, "parts": 1})
            self._send({name: np.empty(0, np.int32) for name in self._used})
            for number, launch in enumerate(plan.launches):
                self._kernel(number, launch, launch.choices[0].key)

    def run(
        self, batch: Batch, given: Mapping[str, Float32] | None = None
    ) -> Mapping[str, Float32]:
        """The program's outputs, float32 (rows, width). given: its inputs, by name."""
        with faults("the OpenCL device failed in the middle of a step"):
            return self._run(batch, given or {})

    def warm_up(self) -> None:
        """Runs small steps, so that no later one waits for kernels that are built when first run.

        What they write to the cache lies in its first block, before anything else does.
        """
        groups, variant = len(self._program.kv_groups), self._plan.variant
        sizes = {1, *variant.tokens, *(tile.least for tile in variant.tiles)}
        steps = [(size, 0) for size in sorted(sizes)]
        if variant.split_rows:
            steps.append((1, ATTENTION_TILE))
        known = [c.weights[0].rows for c in self._program.calls if c.op == "embed_positions"]
        for rows, past in steps:
            if all(past + rows <= positions for positions in known):
                given = {
                    name: np.zeros((rows, value.width), np.float32)
                    for name, value in self._program.inputs.items()
                }
                self.run(_small_batch(rows, past, groups, self._program.num_adapters), given)

    def close(self) -> None:
        """Gives the device's memory back."""
        self._context.queue.finish()
        self._forget_kernels()
        self._memory.clear()
        self._indices.clear()

    def _run(self, batch: Batch, given: Mapping[str, Float32]) -> Mapping[str, Float32]:
        indices = indices_of(batch, self._plan.variant.split_rows)
        counts = indices.counts
        self._reserve(
            {"tokens": counts["tokens"], "outputs": counts["outputs"], "parts": counts["parts"]}
        )
        self._send(indices.arrays)
        queue = self._context.queue
        for name, value in self._program.inputs.items():
            room = self._memory[self._placed[self._plan.rooms[value]]]
            cl.enqueue_copy(queue, room, given[name], is_blocking=False)
        for kernel, sizes, local in self._chosen(counts):
            cl.enqueue_nd_range_kernel(queue, kernel, sizes, local)
        results = {}
        for name, value in self._program.outputs.items():
            if not batch.wants(name):
                continue
            results[name] = np.empty((counts[value.rows], value.width), np.float32)
            if results[name].size:
                room = self._memory[self._placed[self._plan.rooms[value]]]
                cl.enqueue_copy(queue, results[name], room, is_blocking=False)
        queue.finish()  # until here the device may have read the index arrays
        return results

    def _chosen(self, counts: Mapping[Count, int]) -> list[tuple[Any, Size, Size]]:
        """Kernel, work-items and those of a group of each launch that a batch needs, in order."""
        key = tuple(counts.values())
        if key not in self._steps:
            if len(self._steps) == _STEPS_KEPT:
                self._steps.clear()
            self._steps[key] = [
                (self._kernel(number, launch, choice.key), choice.grid.sizes(n), choice.grid.local)
                for number, launch in enumerate(self._plan.launches)
                for choice, n in _fitting(launch, counts)
            ]
        return self._steps[key]

    def _forget_kernels(self) -> None:
        """After memory has moved, which is among their arguments."""
        self._kernels.clear()
        self._steps.clear()

    def _send(self, arrays: Mapping[Index, Int32]) -> None:
        """Enqueues copies of what kernels read; it must stay alive until they are done."""
        for name in self._used & arrays.keys():
            data = arrays[name]
            if name not in self._indices or self._indices[name].size < data.nbytes:
                self._indices[name] = self._context.room(_power_of_two(max(64, data.nbytes)))
                self._forget_kernels()
            if data.size:
                cl.enqueue_copy(self._context.queue, self._indices[name], data, is_blocking=False)

    def _kernel(self, number: int, launch: Launch, key: KernelKey) -> Any:
        """The kernel of a launch with its arguments; they change only when memory moves."""
        found = self._kernels.get((number, key))
        if found is None:
            found = self._context.kernel(key)
            found.set_args(*map(self._bound, launch.arguments))
            self._kernels[number, key] = found
        return found

    def _bound(self, argument: Argument) -> Any:
        if isinstance(argument, Room):
            return self._memory[self._placed[argument]]
        if isinstance(argument, IndexArray):
            return self._indices[argument.name]
        return argument

    def _reserve(self, rows: Mapping[RoomRows, int]) -> None:
        """Makes room for so many rows and parts."""
        if all(rows[kind] <= self._capacity[kind] for kind in rows):
            return
        wanted = {kind: max(self._capacity[kind], _power_of_two(n)) for kind, n in rows.items()}
        self._forget_kernels()
        self._memory = []
        self._memory = [self._context.room(p.row_bytes * wanted[p.rows]) for p in self._pieces]
        self._capacity = wanted


def _fitting(launch: Launch, counts: Mapping[Count, int]) -> list[tuple[Choice, int]]:
    """The choice for a batch and how many of its grid's things there are; or no choice."""
    sized = [(choice, counts[choice.grid.count]) for choice in launch.choices]
    return [(choice, count) for choice, count in sized if count >= choice.least][-1:]


def _small_batch(rows: int, past: int, groups: int, adapters: int) -> Batch:
    """One sequence, all of it token 0 and in block 0, of which the last `rows` are computed."""
    positions = np.arange(past, past + rows, dtype=np.int32)
    return Batch(
        input_ids=np.zeros(rows, np.int32),
        positions=positions,
        query_start=np.array([0, rows], np.int32),
        seq_lens=positions[-1:] + 1,
        slot_mapping=np.tile(positions.astype(np.int64) % BLOCK_SIZE, (groups, 1)),
        block_tables=np.zeros((groups, 1, -(-(past + rows) // BLOCK_SIZE)), np.int32),
        state_slots=np.zeros(1, np.int32),
        logits_rows=np.arange(rows, dtype=np.int32)[-1:],
        adapter_scales=np.zeros((1, adapters), np.float32),
    )


def _power_of_two(number: int) -> int:
    """The next one that is not smaller, so that growing is rare."""
    return 1 << max(0, number - 1).bit_length()
