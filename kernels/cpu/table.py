"""From a Plan to memory: where buffers lie, where threads must wait, and the words of the table."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from edgellm.kernels.cpu import layout
from edgellm.kernels.cpu.objects import KernelKey
from edgellm.kernels.cpu.plan import Buffer, BufferAddress, KernelCall, Partition, buffer_bytes
from edgellm.kernels.program import Rows


def place(
    calls: Sequence[KernelCall], kept: Iterable[Buffer], rows: Mapping[Rows, int]
) -> tuple[dict[Buffer, int], int]:
    """Offsets of all buffers in one arena, and its size in bytes.

    A buffer's room is free again after its last reader; `kept` buffers stay to the end. First fit
    over a list of free intervals.
    """
    last_use = {b: i for i, call in enumerate(calls) for b in (*call.reads, *call.writes)}
    for buffer in kept:
        last_use[buffer] = len(calls)
    taken: list[tuple[int, int, Buffer]] = []  # (begin, end, owner) in address order
    offsets: dict[Buffer, int] = {}
    size = 0
    for i, call in enumerate(calls):
        for buffer in call.writes:
            if buffer in offsets:
                continue
            need = buffer_bytes(buffer, rows)
            begin = 0
            for start, end, _ in taken:
                if start - begin >= need:
                    break
                begin = max(begin, end)
            offsets[buffer] = begin
            taken.append((begin, begin + need, buffer))
            taken.sort(key=lambda part: part[:2])
            size = max(size, begin + need)
        taken = [part for part in taken if last_use[part[2]] > i]
    return offsets, size


def waits(
    calls: Sequence[KernelCall], offsets: Mapping[Buffer, int], rows: Mapping[Rows, int]
) -> list[bool]:
    """For each call, whether all threads must have finished it before any begins the next.

    They must where the next call touches memory that a call since the last wait wrote, or writes
    memory that one has read, unless both are the same buffer shared out in the same way. The last
    call always ends with a wait.
    """
    needed = [False] * len(calls)
    since: list[tuple[KernelCall, Buffer, bool]] = []  # (call, buffer, is written) since a wait
    for i, call in enumerate(calls):
        touched = [(b, False) for b in call.reads] + [(b, True) for b in call.writes]
        if any(
            (is_write or was_write)
            and _meet(buffer, earlier, offsets, rows)
            and not (buffer is earlier and _same(call.partition, before.partition))
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


def _meet(a: Buffer, b: Buffer, offsets: Mapping[Buffer, int], rows: Mapping[Rows, int]) -> bool:
    """Whether two buffers share memory."""
    begin, other = offsets.get(a, 0), offsets.get(b, 0)
    overlap = begin < other + buffer_bytes(b, rows) and other < begin + buffer_bytes(a, rows)
    return a is b or overlap


def build_table(
    calls: Sequence[KernelCall],
    offsets: Mapping[Buffer, int],
    arena: int,
    kernel_address: Callable[[KernelKey], int],
    wait_after: Sequence[bool],
) -> npt.NDArray[np.int64]:
    """int64 (ops, OP_WORDS): the kernel's address, its words, and whether to wait after it."""
    table = np.zeros((len(calls), layout.OP_WORDS), np.int64)
    for row, call, wait in zip(table, calls, wait_after, strict=True):
        row[0] = kernel_address(call.key)
        for i, word in enumerate(call.words, start=1):
            row[i] = arena + offsets[word.buffer] if isinstance(word, BufferAddress) else word
        row[layout.WAIT] = wait
    return table
