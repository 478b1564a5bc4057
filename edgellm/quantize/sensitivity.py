"""What each type would cost each tensor: bytes, and the error of a sample of its rows.

The error is that of the products with it: squared differences weighted by how strongly columns are
driven, over the same sum of the weights themselves. So tensors of any size and scale compare.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from edgellm.errors import RequestError
from edgellm.gguf_loader import GGUFFile, TensorInfo
from edgellm.kernels.formats import by_id, by_name, dequantize_rows, quantize_rows
from edgellm.quantize.workers import workers

Array = npt.NDArray[np.float32]

SAMPLE = 1 << 16  # weights of a tensor that are tried in every type


@dataclass(frozen=True)
class Choice:
    """A type that a tensor could have. error: of its products, relative; 0 when nothing is lost."""

    type: str
    nbytes: int
    error: float


def measure(
    file: GGUFFile,
    tensors: Sequence[TensorInfo],
    types: Sequence[str],
    means: Mapping[str, Array],
    threads: int,
    watch: Callable[[int, int, str], None] | None = None,
) -> dict[str, tuple[Choice, ...]]:
    """The choices of every tensor: what it is now, and those of `types` that its rows fit.

    means: of squared inputs by tensor name (importance matrix). watch: bytes done, in all, name.
    RequestError naming a tensor that holds what no type can.
    """
    found: dict[str, tuple[Choice, ...]] = {}
    done, total = 0, sum(tensor.nbytes for tensor in tensors)
    with workers(threads, len(types) * len(tensors) * SAMPLE) as pool:
        for tensor in tensors:
            if watch:
                watch(done, total, tensor.name)
            values, driven = sample(file, tensor, means.get(tensor.name))
            formats = [f for f in map(by_name, types) if tensor.columns % f.block_size == 0]
            tried = [f for f in formats if f.type_id != tensor.type_id]
            names = [fmt.name for fmt in tried]
            errors = pool.map(partial(_error, tensor.name, values, driven), names)
            found[tensor.name] = (
                Choice(tensor.type_name, tensor.nbytes, 0.0),
                *(
                    Choice(fmt.name, fmt.row_bytes(tensor.columns) * tensor.rows, error)
                    for fmt, error in zip(tried, errors, strict=True)
                ),
            )
            file.give_back(tensor.name)
            done += tensor.nbytes
    if watch:
        watch(done, total, "")
    return found


def sample(file: GGUFFile, tensor: TensorInfo, means: Array | None) -> tuple[Array, Array | None]:
    """Rows spread over the whole tensor, and how strongly each of their columns is driven."""
    count = min(tensor.rows, max(1, SAMPLE // tensor.columns))
    rows = np.linspace(0, tensor.rows - 1, count).astype(np.int64)
    stored = file.data(tensor.name).reshape(tensor.rows, -1)[rows]
    values = dequantize_rows(by_id(tensor.type_id), stored)
    if means is None:
        return values, None
    return values, means[rows // tensor.shape[1] if len(means) > 1 else np.zeros_like(rows)]


def relative_error(values: Array, back: Array, driven: Array | None) -> float:
    """Of the products with what came back instead of `values`."""
    lost = np.square(values - back, dtype=np.float64)
    whole = np.square(values, dtype=np.float64)
    if driven is not None:
        lost, whole = lost * driven, whole * driven
    energy = float(whole.sum())
    return float(lost.sum()) / energy if energy else 0.0


def _error(tensor: str, values: Array, driven: Array | None, type_: str) -> float:
    fmt = by_name(type_)
    try:
        stored = quantize_rows(fmt, values, driven)
    except ValueError as error:
        raise RequestError(f"tensor {tensor!r} to {type_}: {error}") from None
    return relative_error(values, dequantize_rows(fmt, stored), driven)
