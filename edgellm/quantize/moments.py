"""Second moments of what matrices are multiplied with, for rounding that makes up for errors.

A moment is as large as its columns squared, so they are not all held at once: the model reads the
text again for the next ones, as many as fit. Knows nothing of how weights are rounded.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from edgellm.backends import Backends
from edgellm.gguf_loader import GGUFFile
from edgellm.kernels.program import OpCall
from edgellm.models import read_config, record
from edgellm.quantize.collect import Reader, products, tensor_name

Array = npt.NDArray[np.float32]

HELD = 1 << 30  # bytes of moments that are held at once, or one if that is more


class Moments:
    """Of a model and texts, by tensor name, asked for in file order; a context manager."""

    def __init__(
        self,
        file: GGUFFile,
        chunks: Sequence[list[int]],
        backends: Backends,
        threads: int | None = None,
        held: int = HELD,
        names: Container[str] | None = None,
    ) -> None:
        """chunks: token ids, each read by itself. names: of tensors that may be asked for; None:
        all that are multiplied with every token."""
        context = max(map(len, chunks))
        program = record(file, read_config(file), context, ())
        by_name = {
            tensor_name(call.weights[0]): call
            for call in products(program, file)
            if call.op == "matmul"
        }
        wanted = by_name if names is None else [name for name in by_name if name in names]
        self._calls = {name: by_name[name] for name in file.tensors if name in wanted}
        self._chunks, self._held = chunks, held
        self._found: dict[int, Array] = {}  # by the index of the value
        self._reader = Reader(program, self._calls.values(), context, backends, "cpu", threads)

    def __enter__(self) -> "Moments":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.__exit__()

    def __contains__(self, name: str) -> bool:
        return name in self._calls

    def of(self, name: str) -> Array:
        """X'X of what the matrix is multiplied with, (columns, columns)."""
        index = _index(self._calls[name])
        if index not in self._found:
            self._found = self._read(name)
        return self._found[index]

    def _read(self, first: str) -> dict[int, Array]:
        """Those of `first` and of the tensors after it, as many as may be held."""
        names = list(self._calls)
        sizes: dict[int, int] = {}

        def fits(call: OpCall) -> bool:
            sizes[_index(call)] = 4 * call.weights[0].columns ** 2
            return len(sizes) == 1 or sum(sizes.values()) <= self._held

        later = (self._calls[name] for name in names[names.index(first) :])
        calls = {_index(call): call for call in takewhile(fits, later)}
        found = {
            index: np.zeros((call.weights[0].columns,) * 2, np.float32)
            for index, call in calls.items()
        }
        for inputs in self._rows(calls):
            for index, rows in inputs.items():
                found[index] += rows.T @ rows
        return found

    def _rows(self, calls: Mapping[int, OpCall]) -> Iterator[Mapping[int, Array]]:
        for ids in self._chunks:
            yield from self._reader.read(ids, calls.values())


def _index(call: OpCall) -> int:
    return call.inputs[0].index
