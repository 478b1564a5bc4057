"""One tensor from type to type: strips of rows by several workers, in order, in bounded memory."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from edgellm.errors import RequestError
from edgellm.kernels.formats import Format, by_id, dequantize_rows, quantize_rows
from edgellm.quantize.folds import Factors, scaled

Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[np.float32]

_WEIGHTS = 1 << 16  # of a strip: its arrays stay in the processor's cache
_AHEAD = 4  # strips per worker that wait for their turn


@dataclass(frozen=True)
class Strip:
    """Rows of a tensor, as stored, and what they become. source, target: types by number.

    factors, weights: as `converted` takes them, of these rows.
    """

    name: str
    stored: Bytes
    source: int
    target: int
    factors: Factors | None
    weights: Array | None


def converted(
    name: str,
    stored: Bytes,
    source: Format,
    target: Format,
    importance: Array | None,
    pool: Executor,
    threads: int,
    factors: Factors | None = None,
) -> Iterator[Bytes]:
    """The tensor's bytes in the type `target`, a strip at a time.

    stored: uint8 (matrices, rows, row bytes). importance: float32 (matrices, columns), or one row
    for all. factors: what rows and columns are multiplied with first. RequestError naming the
    tensor when the type cannot hold its numbers.
    """
    matrices, rows, row_bytes = stored.shape
    columns = row_bytes // source.type_size * source.block_size
    height = max(1, _WEIGHTS // columns)

    def strips() -> Iterator[Strip]:
        for matrix in range(matrices):
            weights = None
            if importance is not None:
                weights = importance[matrix if len(importance) > 1 else 0]
            for start in range(0, rows, height):
                part = np.array(stored[matrix, start : start + height])  # no view of the file
                own = None if factors is None else factors.part(matrix * rows + start, len(part))
                yield Strip(name, part, source.type_id, target.type_id, own, weights)

    waiting: deque[Future[Bytes]] = deque()
    work = strips()
    for strip in islice(work, threads * _AHEAD):
        waiting.append(pool.submit(_quantized, strip))
    while waiting:
        yield waiting.popleft().result()
        for strip in islice(work, 1):
            waiting.append(pool.submit(_quantized, strip))


def _quantized(strip: Strip) -> Bytes:
    target, values = by_id(strip.target), dequantize_rows(by_id(strip.source), strip.stored)
    if strip.factors is not None:
        values = scaled(values, strip.factors)
    try:
        return quantize_rows(target, values, strip.weights)
    except ValueError as error:
        raise RequestError(f"tensor {strip.name!r} to {target.name}: {error}") from None
