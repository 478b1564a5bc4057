"""From a Plan to memory: where buffers lie, where threads must wait, and the words of the table."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from edgellm.kernels.cpu import layout
from edgellm.kernels.cpu.memory import aligned_bytes
from edgellm.kernels.cpu.objects import KernelKey
from edgellm.kernels.cpu.plan import Buffer, BufferAddress, KernelCall, Partition, buffer_bytes
from edgellm.kernels.program import Rows


def waits(calls: Sequence[KernelCall]) -> list[bool]:
    """For each call, whether all threads must have finished it before any begins the next.

    They must where the next call touches a buffer that a call since the last wait wrote, or writes
    one that was read, unless both share it out in the same way. The last call always ends with a
    wait.
    """
    needed = [False] * len(calls)
    since: list[tuple[KernelCall, Buffer, bool]] = []  # (call, buffer, is written) since a wait
    for i, call in enumerate(calls):
        touched = [(b, False) for b in call.reads] + [(b, True) for b in call.writes]
        if any(
            (is_write or was_write)
            and buffer is earlier
            and not _same(call.partition, before.partition)
            for buffer, is_write in touched
            for before, earlier, was_write in since
        ):
            needed[i - 1] = True
            since.clear()
        since += [(call, buffer, is_write) for buffer, is_write in touched]
    if needed:
        needed[-1] = True
    return needed


def _same(a: Partition | None, b: Partition | None) -> bool:
    return a is not None and a == b


def place(
    calls: Sequence[KernelCall],
    wait_after: Sequence[bool],
    kept: Iterable[Buffer],
    rows: Mapping[Rows, int],
) -> tuple[dict[Buffer, int], int]:
    """Offsets of all buffers in one arena, and its size in bytes.

    A buffer's room is free again after the first wait that follows its last reader, so that no
    further waits are needed; `kept` buffers stay to the end. The largest are placed first, each in
    the first gap between those that live at the same time (greedy by size; Pisarchyk and Lee,
    "Efficient Memory Management for Deep Neural Net Inference", 2020).
    """
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for i, call in enumerate(calls):
        for buffer in call.writes:
            first.setdefault(buffer, i)
        last.update(dict.fromkeys((*call.reads, *call.writes), i))
    last.update(dict.fromkeys(kept, len(calls) - 1))
    free_after = list(range(len(calls)))  # the first wait from each call on
    for i in reversed(range(len(calls) - 1)):
        if not wait_after[i]:
            free_after[i] = free_after[i + 1]
    taken: list[list[tuple[int, int]]] = [[] for _ in calls]  # (begin, end) while each call runs
    offsets: dict[Buffer, int] = {}
    size = 0
    for buffer in sorted(first, key=lambda b: buffer_bytes(b, rows), reverse=True):
        need = buffer_bytes(buffer, rows)
        life = range(first[buffer], free_after[last[buffer]] + 1)
        begin = 0
        for start, end in sorted({part for i in life for part in taken[i]}):
            if start - begin >= need:
                break
            begin = max(begin, end)
        offsets[buffer] = begin
        size = max(size, begin + need)
        for i in life:
            taken[i].append((begin, begin + need))
    return offsets, size


def build_table(
    calls: Sequence[KernelCall],
    offsets: Mapping[Buffer, int],
    arena: int,
    kernel_address: Callable[[KernelKey], int],
    wait_after: Sequence[bool],
) -> npt.NDArray[np.int64]:
    """int64 (ops, OP_WORDS): the kernel's address, its words, and whether to wait after it.

    Also the part of a weight that threads read next, each its share; behind the last one that of
    the first, since the table will be run again.
    """
    size = 8 * len(calls) * layout.OP_WORDS
    table = aligned_bytes(size).view(np.int64).reshape(len(calls), layout.OP_WORDS)
    table[:] = 0
    for row, call, wait in zip(table, calls, wait_after, strict=True):
        row[0] = kernel_address(call.key)
        for i, word in enumerate(call.words, start=1):
            row[i] = arena + offsets[word.buffer] if isinstance(word, BufferAddress) else word
        row[layout.WAIT] = wait
    upcoming = next((_first_part(call.weight) for call in calls if call.weight), (0, 0))
    for row, call in zip(table[::-1], reversed(calls), strict=True):
        row[layout.NEXT_WEIGHT], row[layout.NEXT_BYTES] = upcoming
        if call.weight:
            upcoming = _first_part(call.weight)
    return table


def _first_part(weight: tuple[int, int]) -> tuple[int, int]:
    """Where what threads share evenly of a weight is, and its bytes."""
    address, size = weight
    return address, size - (size // layout.FREE_PART if size >= layout.LARGE_BYTES else 0)
