"""Importance matrices: how strongly each column of a weight is driven, in llama.cpp's GGUF files.

A file has `general.type` = "imatrix" and, for each weight NAME, `NAME.in_sum2`, the sums of the
squared inputs (columns, experts), and `NAME.counts`, of how many tokens (1, experts). Knows
nothing of how they come about.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGUFFile, NewTensor, TensorInfo, entry, open_gguf, write_gguf
from edgellm.gguf_loader.header import MAGIC
from edgellm.quantize.old_importance import read_old_importance

Array = npt.NDArray[np.float32]

_SUMS, _COUNTS = ".in_sum2", ".counts"
_F32 = 0


@dataclass(frozen=True)
class Driven:
    """What was seen of one weight. sums: float64 (experts, columns) of squares. counts: tokens of
    each expert, (experts,); one row for a single matrix."""

    sums: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Importance:
    """means: of squared inputs by weight name, float32 (experts, columns). datasets, chunks: what
    they are of. path: of the file, as it was given."""

    means: Mapping[str, Array]
    datasets: tuple[str, ...]
    chunks: int
    path: str = ""


def read_importance(path: str | Path) -> Importance:
    """Reads a file, of GGUF or older. GGUFError when it is something else, or holds what cannot
    be."""
    if _is_old(Path(path)):
        old = read_old_importance(Path(path))
        return Importance(old.means, (old.dataset,) if old.dataset else (), old.chunks, str(path))
    with open_gguf(path) as file:
        if file.string("general.type") != "imatrix":
            raise GGUFError(
                f"{path}: is no importance matrix: expected a GGUF file whose general.type is "
                "imatrix, as `edgellm imatrix` and llama.cpp's tool write"
            )
        means = {
            name.removesuffix(_SUMS): _mean(file, name.removesuffix(_SUMS))
            for name in file.tensors
            if name.endswith(_SUMS)
        }
        datasets = tuple(file.strings("imatrix.datasets") or ())
        chunks = file.integer("imatrix.chunk_count") or 0
        return Importance(means, datasets, chunks, str(path))


def _is_old(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(len(MAGIC)) != MAGIC
    except OSError:
        return False  # open_gguf says why


def fitted(importance: Importance, file: GGUFFile) -> Importance:
    """With a row of means for each expert of the model's tensors, or one for all of them.

    GGUFError naming a tensor of another shape: the matrix is of another model.
    """
    return replace(
        importance,
        means={
            name: _in_rows(name, mean, file.tensors.get(name))
            for name, mean in importance.means.items()
        },
    )


def _in_rows(name: str, mean: Array, tensor: TensorInfo | None) -> Array:
    if tensor is None:
        return mean
    matrices = tensor.rows // tensor.shape[1] if len(tensor.shape) > 1 else 1
    if mean.size == matrices * tensor.columns:
        return mean.reshape(matrices, tensor.columns)
    if mean.shape != (1, tensor.columns):
        raise GGUFError(
            f"the importance matrix has {mean.shape} numbers for {name}, whose shape is "
            f"{tensor.shape}: it is of another model"
        )
    return mean


def _mean(file: GGUFFile, name: str) -> Array:
    sums, counts = _numbers(file, name + _SUMS), _numbers(file, name + _COUNTS)
    if counts.size != len(sums):
        raise GGUFError(
            f"{file.path}: {name} has {len(sums)} rows of sums and {counts.size} counts"
        )
    # An expert that no token came to: all its columns count the same.
    seen = counts.reshape(-1, 1)
    return np.where(seen > 0, sums / np.maximum(seen, 1), np.float32(1)).astype(np.float32)


def _numbers(file: GGUFFile, name: str) -> Array:
    tensor = file.tensors.get(name)
    if tensor is None:
        raise GGUFError(f"{file.path}: has no tensor {name!r}, which belongs to another of its own")
    if tensor.type_id != _F32:
        raise GGUFError(f"{file.path}: {name} is {tensor.type_name}, expected F32")
    values = file.data(name).view("<f4").reshape(tensor.rows, tensor.columns)
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise GGUFError(f"{file.path}: {name} holds numbers that are negative or not finite")
    return values.astype(np.float32)


def write_importance(
    path: Path,
    driven: Mapping[str, Driven],
    datasets: Sequence[str],
    chunks: int,
    chunk_size: int,
    replace: bool = False,
) -> int:
    """Writes a file that llama.cpp's `llama-quantize --imatrix` reads; returns its size."""
    entries = [
        entry("general.type", "imatrix"),
        entry("imatrix.datasets", list(datasets)),
        entry("imatrix.chunk_count", chunks),
        entry("imatrix.chunk_size", chunk_size),
    ]
    tensors, data = [], []
    for name, seen in sorted(driven.items()):
        experts, columns = seen.sums.shape
        tensors.append(NewTensor(name + _SUMS, (columns, experts), _F32))
        tensors.append(NewTensor(name + _COUNTS, (1, experts), _F32))
        for array in (seen.sums, seen.counts):
            data.append([array.astype("<f4").tobytes()])
    return write_gguf(path, entries, tensors, data, replace=replace)
