"""Writes a model file in other types, from the mapped file; metadata stays as it is."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from pathlib import Path
from types import MappingProxyType

import numpy as np
from threadpoolctl import threadpool_limits

from edgellm.errors import RequestError
from edgellm.gguf_loader import Chunks, GGUFFile, NewTensor, entry, write_gguf, write_header
from edgellm.kernels.formats import by_id, by_name, dequantize_rows
from edgellm.kernels.formats.format import Blocks
from edgellm.quantize.folds import Factors, scaled, weaker
from edgellm.quantize.gptq import compensated
from edgellm.quantize.importance import Importance, fitted
from edgellm.quantize.moments import Moments
from edgellm.quantize.plan import Plan, Planned
from edgellm.quantize.strips import Array, converted
from edgellm.quantize.workers import workers

Watch = Callable[[int, int, str], None]  # (bytes read, bytes in all, tensor name)

# Keys that are of the file as it was.
_REPLACED = {
    *("general.file_type", "general.quantization_version"),
    *("split.no", "split.count", "split.tensors.count"),
    *("quantize.imatrix.file", "quantize.imatrix.dataset"),
    *("quantize.imatrix.entries_count", "quantize.imatrix.chunks_count"),
}
_QUANTIZATION_VERSION = 2
_SMALL = 1 << 20  # bytes of a tensor whose numbers a loader may want to see


def write_quantized(
    file: GGUFFile,
    plan: Plan,
    path: Path,
    threads: int,
    importance: Importance | None = None,
    replace: bool = False,
    watch: Watch | None = None,
    moments: Moments | None = None,
    factors: Mapping[str, Factors] = MappingProxyType({}),
) -> int:
    """Writes the plan and returns the new file's size.

    moments: of what matrices are multiplied with: those that can be are then rounded so that the
    error of each weight is made up for (GPTQ), a whole tensor in memory. factors: what rows and
    columns of some tensors are multiplied with first; inputs are then that much weaker.
    GGUFError for the disk, or a file that is there already and is not to be replaced;
    RequestError for a tensor that cannot be written, or an output that is the input.
    """
    _check_output(file, path)
    entries, tensors = _described(file, plan)
    if importance is not None:
        entries += _origin(importance)
    means: Mapping[str, Array] = {} if importance is None else fitted(importance, file).means
    weights = {
        planned.tensor.name: _weights(planned, means, factors.get(planned.tensor.name))
        for planned in plan.tensors
    }

    changed = sum(p.tensor.num_elements for p in plan.tensors if not p.is_copied)
    # The strips are the parallel work: BLAS with threads of its own would only get in their way.
    with threadpool_limits(1, "blas"), workers(threads, changed) as pool:

        def data() -> Iterator[Chunks]:
            done, total = 0, sum(planned.tensor.nbytes for planned in plan.tensors)
            for planned in plan.tensors:
                if watch:
                    watch(done, total, planned.tensor.name)
                name = planned.tensor.name
                own = factors.get(name)
                if moments is not None and _is_compensated(planned, moments):
                    yield [_compensated(file, planned, moments, own, threads)]
                elif planned.is_copied and own is None:
                    yield [file.data(name)]
                else:
                    yield _strips(file, planned, weights[name], own, pool, threads)
                file.give_back(planned.tensor.name)
                done += planned.tensor.nbytes
            if watch:
                watch(done, total, "")

        return write_gguf(path, entries, tensors, data(), file.alignment, replace)


def write_outline(file: GGUFFile, plan: Plan, path: Path) -> None:
    """What the plan would make, with holes for data: to see what a loader makes of it.

    GGUFError for the disk.
    """
    entries, tensors = _described(file, plan)
    kept = (p.tensor for p in plan.tensors if p.is_copied and p.tensor.nbytes <= _SMALL)
    known = {tensor.name: file.data(tensor.name).tobytes() for tensor in kept}
    write_header(path, entries, tensors, known)


def _described(file: GGUFFile, plan: Plan) -> tuple[list[bytes], list[NewTensor]]:
    """The keys of the file as it will be, and its tensors."""
    entries = [file.entry(key) for key in file.metadata if key not in _REPLACED]
    entries.append(entry("general.quantization_version", _QUANTIZATION_VERSION))
    entries.append(entry("general.file_type", plan.file_type))
    tensors = [
        NewTensor(
            planned.tensor.name,
            planned.tensor.shape,
            planned.tensor.type_id if planned.is_copied else by_name(planned.type).type_id,
        )
        for planned in plan.tensors
    ]
    return entries, tensors


def _check_output(file: GGUFFile, path: Path) -> None:
    """RequestError when `path` is the input, by whatever name."""
    if path.exists() and any(path.samefile(part) for part in file.parts):
        raise RequestError(f"{path} is the file that is read: write to another", "output")


def _origin(importance: Importance) -> list[bytes]:
    return [
        entry("quantize.imatrix.file", importance.path),
        entry("quantize.imatrix.dataset", importance.datasets[0] if importance.datasets else ""),
        entry("quantize.imatrix.entries_count", np.uint32(len(importance.means))),
        entry("quantize.imatrix.chunks_count", np.uint32(importance.chunks)),
    ]


def _weights(planned: Planned, means: Mapping[str, Array], factors: Factors | None) -> Array | None:
    """The importance of a tensor's columns, as they will be written."""
    mean = means.get(planned.tensor.name)
    if mean is None or (planned.is_copied and factors is None):
        return None
    return mean if factors is None else weaker(mean, factors)


def can_compensate(planned: Planned) -> bool:
    """Whether its errors can be made up for, where moments are known."""
    return not planned.is_copied and by_name(planned.type).rounding is not None


def _is_compensated(planned: Planned, moments: Moments) -> bool:
    return can_compensate(planned) and planned.tensor.name in moments


def _compensated(
    file: GGUFFile, planned: Planned, moments: Moments, factors: Factors | None, threads: int
) -> Blocks:
    tensor = planned.tensor
    stored = file.data(tensor.name).reshape(tensor.rows, -1)
    values, seen = dequantize_rows(by_id(tensor.type_id), stored), moments.of(tensor.name)
    if factors is not None:
        values = scaled(values, factors)
        if factors.columns is not None:
            seen = seen / np.outer(factors.columns, factors.columns)
    try:
        with threadpool_limits(threads, "blas"):
            return compensated(values, seen, by_name(planned.type))
    except ValueError as error:
        raise RequestError(f"tensor {tensor.name!r} to {planned.type}: {error}") from None


def _strips(
    file: GGUFFile,
    planned: Planned,
    weights: Array | None,
    factors: Factors | None,
    pool: Executor,
    threads: int,
) -> Chunks:
    tensor = planned.tensor
    height = tensor.shape[1] if len(tensor.shape) > 1 else 1  # of one expert
    return converted(
        tensor.name,
        file.data(tensor.name).reshape(tensor.rows // height, height, -1),
        by_id(tensor.type_id),
        by_name(planned.type),
        weights,
        pool,
        threads,
        factors,
    )
