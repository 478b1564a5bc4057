"""Scales for columns that matrices can take over from what makes their inputs, so that rounding
loses less: those of AWQ (Lin et al. 2023) and SmoothQuant (Xiao et al. 2022).

Columns that are driven strongly are multiplied by more, and so keep more of their digits, at the
cost of those beside them in a block. How much is tried: the least error of the products wins, and
leaving a matrix as it is is one of the tries. Knows nothing of how scales come into a file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from edgellm.errors import RequestError
from edgellm.gguf_loader import GGUFFile
from edgellm.kernels.formats import by_name, dequantize_rows, quantize_rows
from edgellm.quantize.folds import Fold, Index
from edgellm.quantize.plan import Plan
from edgellm.quantize.sensitivity import SAMPLE, relative_error, sample
from edgellm.quantize.workers import workers

Array = npt.NDArray[np.float32]

_STRENGTHS = tuple(np.linspace(0.1, 1, 10).tolist())
_LEAST = 1e-4  # of the largest, for columns that are next to never driven
_ACTIVATIONS = 32  # numbers of an input that become int8 under one scale
_PEAK = 3.0  # the largest of those, in units of the strongest column's root mean square


@dataclass(frozen=True)
class _Reader:
    """Rows of a matrix: values (rows, columns), how their columns are driven, and their type."""

    name: str
    values: Array
    driven: Array
    type: str


def choose_scales(
    file: GGUFFile,
    plan: Plan,
    folds: Sequence[Fold],
    means: Mapping[str, Array],
    smooth: bool,
    threads: int,
    watch: Callable[[int, int, str], None] | None = None,
) -> list[tuple[Fold, Array]]:
    """The folds that gain, each with its scales.

    means: of squared inputs by tensor name (importance matrix). smooth: SmoothQuant's scales, and
    the rounding of inputs counts too. RequestError naming a tensor that holds what no type can.
    """
    types = {planned.tensor.name: planned.type for planned in plan.tensors}
    found = []
    with workers(threads, len(folds) * len(_STRENGTHS) * SAMPLE) as pool:
        for done, fold in enumerate(folds):
            if watch:
                watch(done, len(folds), fold.readers[0])
            readers = list(_readers(file, fold, types, means))
            if readers:
                tries = _tries(fold, readers, smooth)
                errors = list(
                    pool.map(partial(_error, readers, fold.spread, smooth), [None, *tries])
                )
                best = int(np.argmin(errors))
                if best:
                    found.append((fold, tries[best - 1]))
            for name in fold.readers:
                file.give_back(name)
    if watch:
        watch(len(folds), len(folds), "")
    return found


def _readers(
    file: GGUFFile, fold: Fold, types: Mapping[str, str], means: Mapping[str, Array]
) -> list[_Reader]:
    """Those that lose something, and of which it is known how they are driven."""
    found = []
    of_any = next((means[name] for name in fold.readers if name in means), None)
    for name in fold.readers:
        known = means.get(name, of_any)
        if by_name(types[name]).block_size > 1 and known is not None:
            values, driven = sample(file, file.tensors[name], known)
            assert driven is not None
            found.append(_Reader(name, values, np.broadcast_to(driven, values.shape), types[name]))
    return found


def _tries(fold: Fold, readers: Sequence[_Reader], smooth: bool) -> list[Array]:
    """Scales (size,) of different strength, around 1."""
    driven = np.mean([reader.driven.mean(axis=0) for reader in readers], axis=0)
    rms = np.sqrt(_per_scale(fold, driven, np.add) / np.bincount(fold.spread))
    rms = np.maximum(rms, _LEAST * rms.max())
    if not rms.max() > 0:
        return []
    largest = np.ones_like(rms)
    if smooth:
        peaks = np.max([np.abs(reader.values).max(axis=0) for reader in readers], axis=0)
        largest = _per_scale(fold, peaks, np.maximum)
        largest = np.maximum(largest, _LEAST * largest.max())
    tries = []
    for strength in _STRENGTHS:
        scale = rms**strength / (largest ** (1 - strength) if smooth else 1)
        tries.append((scale / np.exp(np.log(scale).mean())).astype(np.float32))
    return tries


def _per_scale(fold: Fold, columns: Array, add: np.ufunc) -> Array:
    found = np.zeros(fold.size, np.float32)
    add.at(found, fold.spread, columns)
    return found


def _error(readers: Sequence[_Reader], spread: Index, smooth: bool, scale: Array | None) -> float:
    """Of the readers' products, relative, summed."""
    total = 0.0
    for reader in readers:
        values, driven = reader.values, reader.driven
        scaled, weaker = values, driven
        if scale is not None:
            factors = scale[spread]
            scaled = values * factors
            weaker = np.divide(driven, np.square(factors), dtype=np.float32)
        fmt = by_name(reader.type)
        try:
            stored = quantize_rows(fmt, scaled, weaker)
        except ValueError as error:
            raise RequestError(f"tensor {reader.name!r} to {reader.type}: {error}") from None
        back = dequantize_rows(fmt, stored)
        total += relative_error(scaled, back, weaker)
        if smooth:
            total += _input_error(scaled, weaker)
    return total


def _input_error(values: Array, driven: Array) -> float:
    """Of products whose inputs become int8 under a scale for each few, relative."""
    inputs = driven.mean(axis=0)
    strongest = inputs.reshape(-1, _ACTIVATIONS).max(axis=1)
    step = _PEAK * np.sqrt(np.repeat(strongest, _ACTIVATIONS)) / 127
    squares = np.square(values, dtype=np.float64).sum(axis=0)
    return float((squares * np.square(step) / 12).sum() / (squares * inputs).sum())
