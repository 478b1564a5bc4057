"""A newly compiled product is tried once, on a few random rows, before it is stored.

A kernel that was compiled wrongly for this processor must not give a model that talks nonsense.
Imported only when something has to be compiled.
"""

import logging

import numpy as np
import numpy.typing as npt

from edgellm.errors import BackendError
from edgellm.kernels.cpu import layout
from edgellm.kernels.cpu.lower import lower
from edgellm.kernels.cpu.memory import aligned_bytes
from edgellm.kernels.cpu.objects import KERNEL_TYPE, KernelKey, Library, symbol
from edgellm.kernels.cpu.plan import Buffer
from edgellm.kernels.cpu.table import build_table, place
from edgellm.kernels.formats import Format, by_id, by_name, dequantize_rows
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Rows, Weight

Array = npt.NDArray[np.float32]

CHECKED = ("matmul", "float_matmul")
ROWS = 19  # not a multiple of what kernels take at a time
TOKEN_COUNTS = (1, 2, 21)
TOLERANCE = 1e-5  # of the sum of the magnitudes of all products

_log = logging.getLogger("edgellm")


def check(key: KernelKey, library: Library) -> None:
    """BackendError when the kernel `key`, a product with weights of type key[1], is wrong."""
    fmt = by_id(int(key[1]))
    rng = np.random.default_rng(0)
    columns = 2 * max(fmt.block_size, layout.ACTIVATION_BLOCK)
    data = random_rows(fmt, ROWS, columns, rng)
    weight = Weight("self-check", fmt.type_id, ROWS, columns, data)
    # Whole numbers up to 127 stay what they are as int8, so that the result is exact.
    x = rng.integers(-127, 128, (max(TOKEN_COUNTS), columns)).astype(np.float32)
    x[:, :: layout.ACTIVATION_BLOCK] = 127
    stored = dequantize_rows(fmt, data).astype(np.float64)
    want, most = x @ stored.T, np.abs(x) @ np.abs(stored).T
    for tokens in TOKEN_COUNTS:
        error = np.abs(_product(weight, x[:tokens], library) - want[:tokens]) / most[:tokens]
        if not error.max() <= TOLERANCE:  # an error of NaN is not
            found = f"kernel {symbol(key)} is wrong by {error.max():.1e} for {tokens} tokens"
            _log.warning("%s: the compiled code cannot be used", found)
            raise BackendError(
                f"{found}: the compiler does not suit this processor; please report this"
            )


def random_rows(
    fmt: Format, rows: int, columns: int, rng: np.random.Generator
) -> npt.NDArray[np.uint8]:
    """Stored rows of random bits whose numbers are neither huge nor tiny: (rows, row bytes)."""
    wanted = rows * columns // fmt.block_size
    tame = np.empty((0, fmt.type_size), np.uint8)
    while len(tame) < wanted:
        blocks = rng.integers(0, 256, (2 * wanted, fmt.type_size), np.uint8)
        with np.errstate(all="ignore"):
            largest = np.abs(fmt.dequantize(blocks)).max(axis=1)
        tame = np.concatenate([tame, blocks[(largest > 2**-10) & (largest < 2**10)]])
    return tame[:wanted].reshape(rows, fmt.row_bytes(columns))


def _product(weight: Weight, x: Array, library: Library) -> Array:
    """x times the transpose of `weight` on this thread."""
    tokens, columns = x.shape
    b = Builder()
    source = by_name("F32")
    # Its kernel is not run: x is put where it would have written.
    given = b.embed(Weight("x", source.type_id, 1, columns, np.zeros((1, 4), np.uint8)))
    result = b.matmul(given, weight)
    plan = lower(b.finish(logits=result), KVStorage((), ()))
    calls = plan.calls[1:]
    library.load(call.key for call in calls)
    rows: dict[Rows, int] = {"tokens": tokens, "outputs": tokens}
    wait_after = [True] * len(plan.calls)
    offsets, size = place(plan.calls, wait_after, plan.buffers.values(), rows)
    arena = aligned_bytes(size + layout.SCRATCH_BYTES)

    def rows_of(buffer: Buffer) -> Array:
        room = arena[offsets[buffer] :][: tokens * buffer.row_bytes]
        return room.view(np.float32).reshape(tokens, -1)

    rows_of(plan.buffers[given])[:, :columns] = x
    step = np.zeros(layout.STEP_WORDS, np.int64)
    step[layout.NUM_TOKENS] = tokens
    step[layout.SCRATCH] = arena.ctypes.data + size
    for row in build_table(calls, offsets, arena.ctypes.data, library.address, wait_after[1:]):
        KERNEL_TYPE(int(row[0]))(row.ctypes.data + row.itemsize, step.ctypes.data, 0, 1)
    return rows_of(plan.buffers[result])[:, : weight.rows]
