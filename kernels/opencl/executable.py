"""A program with its memory on a device, and the one call that enqueues all of it."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from edgellm.errors import BackendError, DeviceLost
from edgellm.kernels.batch import Batch
from edgellm.kernels.draw import DrawsNone
from edgellm.kernels.opencl.ahead import following, is_same
from edgellm.kernels.opencl.best_rows import BestRows, Keys, ids_of
from edgellm.kernels.opencl.context import Context, faults
from edgellm.kernels.opencl.indices import Indices, indices_of
from edgellm.kernels.opencl.plan import (
    Argument,
    Choice,
    Count,
    IndexArray,
    Launch,
    Plan,
    Room,
    RoomRows,
    Size,
    place,
)
from edgellm.kernels.opencl.probe import check
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.opencl.staging import Staging
from edgellm.kernels.program import Program

Float32 = npt.NDArray[np.float32]
_FLUSHED = 64  # launches that the device is told of together, while the host goes on
_STEPS_KEPT = 64  # kinds of steps, whose launches are looked up once
_TRUSTED_AFTER = 8  # steps in a row whose tokens were the best of the steps before

# Kernel, work-items, those of a group, and where their numbers begin; None is at 0.
_Chosen = tuple[Any, Size, Size, Size | None]


@dataclass(frozen=True, eq=False)
class _Step:
    """An enqueued step. outputs, best: arrays that are filled when the events are over; best: keys
    of the best logits, None where they were not asked for. The last event is over last."""

    outputs: Mapping[str, Float32]
    best: Keys | None
    events: tuple[Any, ...]


class Executable(DrawsNone):
    """Runs one program on batches of any size. Not for two threads at once.

    A step is enqueued whole, in order, and the host waits for its outputs alone. Where tokens have
    been the best of the steps before for a while, the next step is enqueued before that wait, and
    the device takes its tokens from its own memory: it counts if the next run asks for the same.
    """

    def __init__(self, program: Program, plan: Plan, context: Context) -> None:
        self._program, self._plan, self._context = program, plan, context
        self.store = plan.store
        self._placed, self._pieces = place(plan, tuple(program.outputs.values()))
        self._capacity: dict[RoomRows, int] = {"tokens": 0, "outputs": 0, "parts": 0}
        self._memory: list[Any] = []
        arguments = (a for launch in plan.launches for a in launch.arguments)
        self._staging = Staging(context, {a.name for a in arguments if isinstance(a, IndexArray)})
        self._kernels: dict[tuple[int, KernelKey], Any] = {}
        self._steps: dict[tuple[int, ...], list[_Chosen]] = {}  # by counts
        self._best_rows = BestRows(logits.width if (logits := program.outputs.get("logits")) else 0)
        # States cannot be taken back, and tokens that another device embeds not be taken ahead.
        self._can_expect = bool(plan.best) and not (program.state_layers or program.inputs)
        self._keys: list[Keys] = [np.empty((0, 1), np.uint64)] * 2
        self._expected: Batch | None = None  # the next step, but for its tokens
        self._best: Keys | None = None  # among which they may be
        self._ahead: _Step | None = None  # that step, enqueued
        self._trust = 0  # steps in a row that were as expected
        with faults("the OpenCL device cannot hold a step"):
            self._reserve({"tokens": 1, "outputs": 1, "parts": 1})

    def reserve(self, tokens: int, outputs: int) -> None:
        """Makes room for steps of so many rows before one comes. OutOfDeviceMemory without any."""
        with faults("the OpenCL device cannot hold a step"):
            self._reserve({"tokens": tokens, "outputs": outputs, "parts": 1})

    def run(
        self, batch: Batch, given: Mapping[str, Float32] | None = None
    ) -> Mapping[str, Float32]:
        """The program's outputs, float32 (rows, width), valid until the next run. given: its
        inputs, by name."""
        with faults("the OpenCL device failed in the middle of a step"):
            try:
                return self._run(batch, given or {})
            except BaseException as error:
                self._forget_steps()
                if isinstance(error, cl.Error):
                    self._check_answers(error)
                raise

    def close(self) -> None:
        """Gives the device's memory back."""
        self._forget_steps()
        self._forget_kernels()
        self._memory.clear()

    def _run(self, batch: Batch, given: Mapping[str, Float32]) -> Mapping[str, Float32]:
        ahead, self._ahead = self._ahead, None
        if self._expected is not None and self._best is not None:
            is_expected = is_same(self._expected, batch, ids_of(self._best[:, 0]))
            self._trust = self._trust + 1 if is_expected else 0
        if ahead is None or not self._trust:
            step = self._enqueue(batch, indices_of(batch, self._plan.variant.split_rows), given)
        else:
            step = ahead
        self._expected = following(batch) if self._can_expect else None
        if self._expected is not None and self._trust >= _TRUSTED_AFTER:
            self._ahead = self._enqueue_ahead(self._expected)
        cl.wait_for_events([step.events[-1]])
        self._best = step.best
        if step.best is None or not self._gives_best(batch):
            return step.outputs
        return {**step.outputs, "logits": self._best_rows.fill(step.best)}

    def _gives_best(self, batch: Batch) -> bool:
        """Whether the best logits are all that is to be read."""
        most = self._plan.variant.candidates if self._plan.best else 0
        return batch.wants("logits") and batch.num_best is not None and batch.num_best <= most

    def _enqueue_ahead(self, batch: Batch) -> _Step | None:
        """The step whose tokens are the best of the last one's; None where memory would move."""
        indices = indices_of(batch, self._plan.variant.split_rows)
        if not self._has_room(indices.counts) or not self._staging.fits(indices.arrays):
            return None
        return self._enqueue(batch, indices, {}, is_ahead=True)

    def _enqueue(
        self,
        batch: Batch,
        indices: Indices,
        given: Mapping[str, Float32],
        is_ahead: bool = False,
    ) -> _Step:
        is_ranked = self._gives_best(batch) or (self._can_expect and following(batch) is not None)
        best_room = self._plan.best if is_ranked else None
        rows = indices.counts[best_room.rows] if best_room else 0
        counts: dict[Count, int] = {
            **indices.counts,
            "ranked": rows,
            "ahead": batch.num_tokens if is_ahead else 0,
        }
        self._reserve(counts)
        if not self._staging.fits(indices.arrays):
            self._staging.reserve(indices.arrays)
            self._forget_kernels()
        queue, events = self._context.queue, [self._staging.send(indices.arrays)]
        for name, value in self._program.inputs.items():
            room = self._bound(self._plan.rooms[value])
            events.append(cl.enqueue_copy(queue, room, given[name], is_blocking=False))
        for number, (kernel, sizes, local, begins) in enumerate(self._chosen(counts), 1):
            cl.enqueue_nd_range_kernel(queue, kernel, sizes, local, begins)
            if number % _FLUSHED == 0:
                queue.flush()
        outputs = {
            name: np.empty((counts[value.rows], value.width), np.float32)
            for name, value in self._program.outputs.items()
            if batch.wants(name) and not (name == "logits" and self._gives_best(batch))
        }
        reads: list[tuple[npt.NDArray[Any], Room]] = [
            (array, self._plan.rooms[self._program.outputs[name]])
            for name, array in outputs.items()
        ]
        best = None
        if best_room and rows:
            best = self._room_for_keys(rows)
            reads.append((best, best_room))
        for array, room in reads:
            if array.size:
                events.append(cl.enqueue_copy(queue, array, self._bound(room), is_blocking=False))
        if len(events) == 1:
            events.append(cl.enqueue_marker(queue))
        queue.flush()
        return _Step(outputs, best, tuple(events))

    def _room_for_keys(self, rows: int) -> Keys:
        """The array that the step before does not use: two steps may be in flight."""
        self._keys.reverse()
        if len(self._keys[0]) < rows:
            shape = _power_of_two(rows), self._plan.variant.candidates
            self._keys[0] = self._context.pinned(shape, np.uint64)
        return self._keys[0][:rows]

    def _chosen(self, counts: Mapping[Count, int]) -> list[_Chosen]:
        """Each launch that a batch needs, in order."""
        key = tuple(counts.values())
        if key not in self._steps:
            if len(self._steps) == _STEPS_KEPT:
                self._steps.clear()
            self._steps[key] = [
                (self._kernel(number, launch, choice.key), sizes, choice.grid.local, begins)
                for number, launch in enumerate(self._plan.launches)
                for choice, n in _fitting(launch, counts)
                for sizes, begins in choice.grid.pieces(n)
            ]
        return self._steps[key]

    def _check_answers(self, error: cl.Error) -> None:
        """DeviceLost where the device does not do the least thing any more."""
        try:
            check(self._context)
        except BackendError:
            name = self._context.device.name.strip()
            raise DeviceLost(
                f"the OpenCL device {name} answers no more ({error}): it was reset, or what it did "
                "took too long. The next request loads the model again"
            ) from None

    def _forget_steps(self) -> None:
        """Waits for what is enqueued, which uses arrays of the host. What comes next is unknown."""
        with suppress(cl.Error):  # a device that is lost uses nothing
            self._context.queue.finish()
        self._expected = self._best = self._ahead = None
        self._trust = 0

    def _forget_kernels(self) -> None:
        """After memory has moved, which is among their arguments."""
        self._kernels.clear()
        self._steps.clear()

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
            return self._staging.buffers[argument.name]
        return argument

    def _has_room(self, rows: Mapping[Count, int]) -> bool:
        return all(rows[kind] <= capacity for kind, capacity in self._capacity.items())

    def _reserve(self, rows: Mapping[Count, int]) -> None:
        """Makes room for so many rows and parts."""
        if self._has_room(rows):
            return
        wanted = {kind: max(n, _power_of_two(rows[kind])) for kind, n in self._capacity.items()}
        self._forget_kernels()
        # There is no room at all until all of it is found: the device may be full.
        self._memory, self._capacity = [], dict.fromkeys(wanted, 0)
        self._memory = [self._context.room(p.row_bytes * wanted[p.rows]) for p in self._pieces]
        self._capacity = wanted


def _fitting(launch: Launch, counts: Mapping[Count, int]) -> list[tuple[Choice, int]]:
    """The choice for a batch and how many of its grid's things there are; or no choice."""
    sized = [(choice, counts[choice.grid.count]) for choice in launch.choices]
    return [(choice, count) for choice, count in sized if count >= choice.least][-1:]


def _power_of_two(number: int) -> int:
    """The next one that is not smaller, so that growing is rare."""
    return 1 << max(0, number - 1).bit_length()
