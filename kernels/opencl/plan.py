"""Kernel launches before memory is bound: what each is called with, and over how many items.

Knows nothing of ops; `ops` makes launches, executable.py runs them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from edgellm.kernels.kv import KVStorage
from edgellm.kernels.opencl.context import Context
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.opencl.store import DeviceStore
from edgellm.kernels.opencl.variant import Variant
from edgellm.kernels.opencl.weights import Weights
from edgellm.kernels.program import OpCall, Program, Rows, Value

Index = Literal[
    "step", "input_ids", "positions", "query_start", "row_seqs", "slots", "block_tables",
    "state_slots", "rows", "adapter_scales", "tiles", "parts", "part_starts", "seq_lens",
]  # fmt: skip
# parts: a row and a tile of its keys each, where few rows see many; split_rows: those rows. alone:
# rows that are each all that their sequence has in the step, and in no parts; or else together is
# how many rows there are. ranked: rows of logits of which the best are wanted; ahead: tokens that
# are the last step's best.
Count = (
    Rows | Literal["seqs", "tiles", "parts", "split_rows", "alone", "together", "ranked", "ahead"]
)
RoomRows = Rows | Literal["parts"]
TILE_ROWS = 4  # rows of one sequence whose attention is computed together, where there are many


@dataclass(frozen=True, eq=False)
class Room:
    """Memory that one launch writes and later ones read: `row_bytes` for each row, or part."""

    rows: RoomRows
    row_bytes: int


@dataclass(frozen=True)
class IndexArray:
    """An argument that is one of the batch's index arrays."""

    name: Index


# A device buffer is `Any`: pyopencl has no types.
Argument = Room | IndexArray | np.int32 | np.float32 | Any | None
Size = tuple[int, ...]
STEP = IndexArray("step")


@dataclass(frozen=True)
class Grid:
    """`sizes(n)` is the number of work-items for n rows, sequences or tiles of rows of one; `local`
    those of a group. most: n of one launch, where one for all would hold a screen up for too long;
    the last axis then counts them, one to a group, and begins where the launch before ended."""

    count: Count
    sizes: Callable[[int], Size]
    local: Size
    most: int | None = None

    def pieces(self, n: int) -> Iterator[tuple[Size, Size | None]]:
        """Work-items of each launch for n of them, and where their numbers begin."""
        most = self.most or n
        for first in range(0, n, most):
            sizes = self.sizes(min(most, n - first))
            yield sizes, (*(0 for _ in sizes[1:]), first) if first else None


@dataclass(frozen=True)
class Choice:
    """A kernel for batches of at least `least` of what its grid counts."""

    least: int
    key: KernelKey
    grid: Grid


@dataclass(frozen=True, eq=False)
class Launch:
    """One step of a program. All choices take the same arguments; the last that fits is run, or
    none where none fits."""

    choices: tuple[Choice, ...]
    arguments: tuple[Argument, ...]
    writes: tuple[Room, ...]

    @property
    def rooms(self) -> tuple[Room, ...]:
        return tuple(argument for argument in self.arguments if isinstance(argument, Room))


class Plan:
    """Launches in order, and the rooms of each value; of the best logits, where there are any."""

    def __init__(self, program: Program, kv: KVStorage, context: Context) -> None:
        self.context, self.kv, self.kv_layers = context, kv, program.kv_layers
        self.weights = Weights(context)
        self.launches: list[Launch] = []
        self.rooms: dict[Value, Room] = {}
        self.best: Room | None = None
        self._records: dict[Value, Room] = {}
        self.sorted: dict[Value, tuple[Room, Room]] = {}  # pairs of a routing, by expert
        self.store = DeviceStore(context, program, kv)
        self._recorded = {call.inputs[0] for call in program.calls if reads_records(call)}
        self.given = [self.new(value) for value in program.inputs.values()]

    @property
    def kernels(self) -> tuple[KernelKey, ...]:
        """All that any step may run."""
        choices = (choice for launch in self.launches for choice in launch.choices)
        return tuple(dict.fromkeys(choice.key for choice in choices))

    @property
    def variant(self) -> Variant:
        return self.context.variant

    def of(self, value: Value) -> Room:
        return self.rooms[value]

    def new(self, value: Value) -> Room:
        """Room for a value as float32 rows."""
        self.rooms[value] = Room(value.rows, 4 * value.width)
        return self.rooms[value]

    def emit(
        self, choices: Sequence[Choice], *arguments: Argument, writes: Sequence[Room] = ()
    ) -> None:
        self.launches.append(Launch(tuple(choices), arguments, tuple(writes)))

    def by_items(
        self,
        key: KernelKey,
        count: Count,
        each: int,
        *arguments: Argument,
        writes: Sequence[Room] = (),
    ) -> None:
        """A launch with a work-item for each of `each` things in every row, or sequence."""
        self._flat(key, count, each, 1, arguments, writes)

    def by_vectors(
        self,
        key: KernelKey,
        count: Count,
        each: int,
        *arguments: Argument,
        writes: Sequence[Room] = (),
    ) -> None:
        """The same where a work-item does as many things as a vector holds."""
        self._flat(key, count, each, self.variant.vector, arguments, writes)

    def _flat(
        self,
        key: KernelKey,
        count: Count,
        each: int,
        at_once: int,
        arguments: tuple[Argument, ...],
        writes: Sequence[Room],
    ) -> None:
        local = self.variant.items
        grid = Grid(count, lambda n: (-(-n * each // (at_once * local)) * local,), (local,))
        self.emit([Choice(1, key, grid)], *arguments, writes=writes)

    def records(self, x: Value) -> Room:
        """The value as int8 records (source/record.cl), made when first asked for."""
        if x not in self._records:
            blocks, room = x.width // 32, self._room_for_records(x)
            key = KernelKey("quantize", "quantize")
            arguments = STEP, self.of(x), room, count_word(x), np.int32(x.width)
            self.by_items(key, x.rows, blocks, *arguments, writes=[room])
        return self._records[x]

    def new_records(self, x: Value) -> Room | None:
        """Room for the records of x, for the launch that writes x; None where none reads them."""
        return self._room_for_records(x) if x in self._recorded else None

    def _room_for_records(self, x: Value) -> Room:
        self._records[x] = Room(x.rows, 4 * self.variant.record_words * (x.width // 32))
        return self._records[x]


def reads_records(call: OpCall) -> bool:
    """Whether the op is a product that reads its first input as records."""
    is_product = call.op in ("matmul", "moe_matmul", "head_matmul")
    return is_product and call.weights[0].format.unpack is not None


Lowering = Callable[[Plan, OpCall], None]


def count_word(value: Value) -> np.int32:
    """Index of the step word that says how many rows a value has."""
    return np.int32(0 if value.rows == "tokens" else 1)


def last_uses(plan: Plan, outputs: Sequence[Value]) -> Mapping[int, list[Room]]:
    """By launch, the rooms that no later launch reads."""
    last: dict[Room, int] = {}
    for position, launch in enumerate(plan.launches):
        for room in launch.rooms:
            last[room] = position
    for value in outputs:
        last.pop(plan.rooms[value], None)
    ends: dict[int, list[Room]] = defaultdict(list)
    for room, position in last.items():
        ends[position].append(room)
    return ends


def place(plan: Plan, outputs: Sequence[Value]) -> tuple[Mapping[Room, int], list[Room]]:
    """Which piece of memory each room gets, and how large the pieces are.

    Rooms share a piece when one is read for the last time before the other is written.
    """
    ends = last_uses(plan, outputs)
    pieces = list(plan.given)
    free: list[int] = []
    placed = {room: piece for piece, room in enumerate(plan.given)}
    for position, launch in enumerate(plan.launches):
        for room in launch.writes:
            fitting = [p for p in free if pieces[p].rows == room.rows]
            if fitting:
                # The smallest that is large enough, or else the largest, made larger.
                by_size = sorted(fitting, key=lambda p: pieces[p].row_bytes)
                large = (p for p in by_size if pieces[p].row_bytes >= room.row_bytes)
                piece = next(large, by_size[-1])
                free.remove(piece)
                pieces[piece] = Room(room.rows, max(pieces[piece].row_bytes, room.row_bytes))
            else:
                piece = len(pieces)
                pieces.append(Room(room.rows, room.row_bytes))
            placed[room] = piece
        free += [placed[room] for room in ends.get(position, ())]
    return placed, pieces
