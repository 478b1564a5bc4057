"""One tensor from type to type: strips of rows on several threads, in order, in bounded memory."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np
import numpy.typing as npt

from edgellm.errors import RequestError
from edgellm.kernels.formats import Format, dequantize_rows, quantize_rows
from edgellm.quantize.folds import Factors, scaled

Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[np.float32]

_WEIGHTS = 1 << 16  # of a strip: its arrays stay in the processor's cache
_AHEAD = 4  # strips per thread that wait for their turn


def converted(
    name: str,
    stored: Bytes,
    source: Format,
    target: Format,
    importance: Array | None,
    pool: ThreadPoolExecutor,
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

    def strip(matrix: int, start: int) -> Bytes:
        values = dequantize_rows(source, stored[matrix, start : start + height])
        if factors is not None:
            values = scaled(values, factors, matrix * rows + start)
        weights = None
        if importance is not None:
            weights = importance[matrix if len(importance) > 1 else 0]
        try:
            return quantize_rows(target, values, weights)
        except ValueError as error:
            raise RequestError(f"tensor {name!r} to {target.name}: {error}") from None

    places = ((matrix, start) for matrix in range(matrices) for start in range(0, rows, height))
    waiting: deque[Future[Bytes]] = deque()
    try:
        for place in islice(places, threads * _AHEAD):
            waiting.append(pool.submit(strip, *place))
        while waiting:
            yield waiting.popleft().result()
            for place in islice(places, 1):
                waiting.append(pool.submit(strip, *place))
    finally:
        for future in waiting:
            future.cancel()
