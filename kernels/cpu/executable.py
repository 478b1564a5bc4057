"""A Program made ready for this processor, and the one call that runs it."""

import logging
import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgellm.kernels.batch import Batch, Float32, Int64
from edgellm.kernels.cpu import layout
from edgellm.kernels.cpu.draw_records import DrawRecords
from edgellm.kernels.cpu.limits import usable_threads
from edgellm.kernels.cpu.lower import lower
from edgellm.kernels.cpu.memory import aligned_bytes
from edgellm.kernels.cpu.objects import Library, Progress
from edgellm.kernels.cpu.plan import Plan
from edgellm.kernels.cpu.table import build_table, place, waits
from edgellm.kernels.cpu.team import TEAM_KERNELS, Team
from edgellm.kernels.draw import Draws
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.program import Program, Rows
from edgellm.kernels.small_pages import zeros


class Executable:
    """Runs one program on batches of any size. Not for two threads at once."""

    store = None  # blocks lie in the KVStorage

    def __init__(self, program: Program, plan: Plan, library: Library, team: Team) -> None:
        self._program, self._plan, self._library, self._team = program, plan, library, team
        self._calls = plan.table
        self._waits = [*waits(plan.calls), *waits(plan.draws)]
        self.can_draw = bool(plan.draws)
        self._scratch = zeros((team.threads * layout.SCRATCH_BYTES,), np.uint8)
        self._parts = zeros((layout.PARTS_BYTES,), np.uint8)
        self._step = np.zeros(layout.STEP_WORDS, np.int64)
        self._step_address = self._step.ctypes.data
        self._draws = DrawRecords()
        self._capacity: dict[Rows, int] = {"tokens": 0, "outputs": 0}
        self._bound: Batch | None = None  # whose arrays the step record names
        self._held: dict[int, npt.NDArray[np.generic]] = {}
        self._views: dict[str, Float32] = {}
        self._reserve(tokens=1, outputs=1)

    def run(self, batch: Batch) -> Mapping[str, Float32]:
        """The program's outputs, float32 (rows, width); copies, if the batch keeps them."""
        if batch is not self._bound:
            self._bind(batch)
        self._team.run(self._table_address, len(self._plan.calls), self._step_address)
        if not batch.keeps_outputs:
            return self._views
        return {name: view.copy() for name, view in self._views.items()}

    def draw(self, batch: Batch, draws: Draws) -> Int64:
        """Runs a batch of one token of each sequence, draws the next ones, and runs on with those:
        what was drawn, (sequences, steps). Logits that are no numbers give -1.

        The batch's arrays are left as they were for the last of these steps.
        """
        if batch is not self._bound:
            self._bind(batch)
        if self._bound is None or not batch.num_tokens == batch.num_seqs == len(batch.logits_rows):
            raise ValueError("tokens are drawn where each sequence has one row, in arrays in order")
        tokens = self._draws.begin(draws)
        self._step[layout.DRAWS] = self._draws.array.ctypes.data
        self._team.run(self._table_address, len(self._table), self._step_address, draws.steps)
        return tokens

    def close(self) -> None:
        """Nothing is held that the garbage collector does not free."""

    def _bind(self, batch: Batch) -> None:
        """Writes the step record, and notes where outputs will lie.

        Both stay true for the batch while its arrays are where they are.
        """
        outputs = len(batch.logits_rows)
        self._bound = None
        if batch.adapter_scales.shape[1] != self._program.num_adapters:
            found, wanted = batch.adapter_scales.shape[1], self._program.num_adapters
            raise ValueError(f"scales of {found} adapters for a program with {wanted}")
        self._reserve(batch.num_tokens, outputs)
        arrays = {
            layout.INPUT_IDS: batch.input_ids,
            layout.POSITIONS: batch.positions,
            layout.QUERY_START: batch.query_start,
            layout.SLOT_MAPPING: batch.slot_mapping,
            layout.BLOCK_TABLES: batch.block_tables,
            layout.LOGITS_ROWS: batch.logits_rows,
            layout.STATE_SLOTS: batch.state_slots,
            layout.ADAPTER_SCALES: batch.row_scales(),
        }
        self._held = {word: np.ascontiguousarray(array) for word, array in arrays.items()}
        for word, array in self._held.items():
            self._step[word] = array.ctypes.data
        self._step[layout.NUM_TOKENS] = batch.num_tokens
        self._step[layout.NUM_OUTPUTS] = outputs
        self._step[layout.NUM_SEQS] = batch.num_seqs
        self._step[layout.NUM_ADAPTERS] = batch.adapter_scales.shape[1]
        self._step[layout.BLOCKS_PER_SEQ] = batch.block_tables.shape[-1]
        self._step[layout.SCRATCH] = self._scratch.ctypes.data
        self._step[layout.PARTS] = self._parts.ctypes.data
        counts = {"tokens": batch.num_tokens, "outputs": outputs}
        self._views = {
            name: self._view(name)[: counts[value.rows], : value.width]
            for name, value in self._program.outputs.items()
            if batch.wants(name)
        }
        if all(self._held[word] is arrays[word] for word in self._held):  # no copies
            self._bound = batch

    def _view(self, name: str) -> Float32:
        value = self._program.outputs[name]
        buffer = self._plan.buffers[value]
        start = self._offsets[buffer]
        rows = self._arena[start : start + self._capacity[value.rows] * buffer.row_bytes]
        return rows.view(np.float32).reshape(-1, buffer.row_bytes // 4)

    def _reserve(self, tokens: int, outputs: int) -> None:
        """Makes room for so many rows; the table is written again when buffers move."""
        wanted: dict[Rows, int] = {"tokens": tokens, "outputs": outputs}
        if all(wanted[kind] <= self._capacity[kind] for kind in wanted):
            return
        capacity = {kind: max(self._capacity[kind], _room(n)) for kind, n in wanted.items()}
        kept = [self._plan.buffers[value] for value in self._program.outputs.values()]
        offsets, size = place(self._calls, self._waits, kept, capacity)
        arena = aligned_bytes(size)
        table = build_table(
            self._calls, offsets, arena.ctypes.data, self._library.address, self._waits
        )
        # All at once: an interrupt or a lack of memory must not leave a table of another size.
        self._capacity, self._offsets, self._arena, self._table = capacity, offsets, arena, table
        self._table_address = table.ctypes.data


def _room(rows: int) -> int:
    """Rows to make room for: at most a quarter more, so that growing is rare."""
    step = max(1, 1 << rows.bit_length() >> 3)
    return -(-rows // step) * step


def _announce(key: tuple[str, ...], number: int, total: int) -> None:
    logging.getLogger("edgellm").info("compiling kernel %d of %d: %s", number + 1, total, key)


class CpuBackend:
    """The kernel library and the thread team that all executables of a process share.

    Threads may load at the same time; steps of several executables take turns.
    """

    def __init__(
        self,
        cache_root: Path | None,
        threads: int | None = None,
        on_compile: Progress = _announce,
    ) -> None:
        self._library = Library(cache_root, on_compile)
        self._wanted_threads = threads
        self._team: Team | None = None
        self._lock = threading.Lock()

    @property
    def threads(self) -> int:
        """Threads that a step runs on."""
        return usable_threads(self._wanted_threads)

    def load(self, program: Program, kv: KVStorage) -> Executable:
        """Compiles or loads what the program needs."""
        plan = lower(program, kv)
        self._library.load({*TEAM_KERNELS, *(call.key for call in plan.table)})
        with self._lock:
            if self._team is None:
                self._team = Team(self._library, self._wanted_threads)
            return Executable(program, plan, self._library, self._team)

    def close(self) -> None:
        """Ends the team; its executables cannot run any more."""
        if self._team is not None:
            self._team.close()
