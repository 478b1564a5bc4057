"""What drives each weight of a model when it reads a text: sums of its squared inputs.

The model's program is recorded as ever and gets further outputs: what its products read. So any
architecture and backend will do. Knows nothing of files of importance matrices beyond `Driven`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from edgellm.backends import Backends
from edgellm.gguf_loader import GGUFFile, TensorInfo
from edgellm.kernels.program import OpCall, Program, Value, Weight
from edgellm.models import read_config, record
from edgellm.quantize.importance import Driven
from edgellm.quantize.text_runner import STEP, TextRunner

Array = npt.NDArray[np.float32]

_PRODUCTS = ("matmul", "head_matmul", "moe_matmul")


@dataclass
class _Sums:
    sums: npt.NDArray[np.float64]  # (matrices, columns)
    counts: npt.NDArray[np.int64]  # (matrices,)


def collect(
    file: GGUFFile,
    chunks: Iterable[list[int]],
    context: int,
    backends: Backends,
    backend: str = "cpu",
    threads: int | None = None,
    watch: Callable[[int], None] | None = None,
) -> Mapping[str, Driven]:
    """Reads each chunk of at most `context` token ids by itself; what was seen, by weight name.

    The last matrix is left out, as in llama.cpp: it is not run for every token. watch: is told
    how many chunks are done.
    """
    program = record(file, read_config(file), context, ())
    calls = list(products(program, file))
    found: dict[str, _Sums] = {}
    with Reader(program, calls, context, backends, backend, threads) as reader:
        for number, ids in enumerate(chunks):
            for inputs in reader.read(ids, calls):
                for call in calls:
                    _add(found, call, [inputs[value.index] for value in call.inputs])
            if watch:
                watch(number + 1)
    return {name: _folded(seen, file.tensors[name]) for name, seen in found.items()}


class Reader:
    """Runs a program over texts and tells what some of its calls read; a context manager."""

    def __init__(
        self,
        program: Program,
        calls: Iterable[OpCall],
        context: int,
        backends: Backends,
        backend: str = "cpu",
        threads: int | None = None,
    ) -> None:
        """calls: those that may be asked for. context: tokens of a text at most."""
        watched = {str(value.index): value for value in _inputs(calls)}
        program = replace(program, outputs={**program.outputs, **watched})
        self._runner = TextRunner(program, context, backends, backend, threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    def read(self, ids: list[int], calls: Iterable[OpCall]) -> Iterator[Mapping[int, Array]]:
        """What these calls read, a few tokens at a time: rows by the index of the value."""
        wanted = {str(value.index): value.index for value in _inputs(calls)}
        text = self._runner.begin(ids)
        while rest := len(ids) - text.num_computed_tokens:
            values = self._runner.run(text, min(rest, STEP), outputs=frozenset(wanted))
            yield {index: values[name] for name, index in wanted.items()}


def _inputs(calls: Iterable[OpCall]) -> Iterator[Value]:
    for call in calls:
        yield from (value for value in call.inputs if value.rows == "tokens")


def products(program: Program, file: GGUFFile) -> Iterator[OpCall]:
    """The products of every token with a matrix of the file; one of those that read the same."""
    seen = set()
    for call in program.calls:
        if call.op not in _PRODUCTS or call.inputs[0].rows != "tokens":
            continue
        name = tensor_name(call.weights[0])
        tensor = file.tensors.get(name)
        known = tensor is not None and tensor.columns == call.weights[0].columns
        if known and (name, call.inputs) not in seen:
            seen.add((name, call.inputs))
            yield call


def tensor_name(weight: Weight) -> str:
    """The tensor's, of a weight that may be some of its rows."""
    return weight.name.partition("[")[0]


def _folded(seen: _Sums, tensor: TensorInfo) -> Driven:
    """Sums for each matrix of a tensor; one that is stored as a single matrix has one row."""
    matrices = tensor.rows // tensor.shape[1]
    if matrices == len(seen.sums):
        return Driven(seen.sums, seen.counts)
    return Driven(seen.sums.sum(axis=0, keepdims=True), seen.counts.sum(keepdims=True))


def _add(found: dict[str, _Sums], call: OpCall, inputs: list[Array]) -> None:
    weight = call.weights[0]
    name = tensor_name(weight)
    matrices = int(call.attributes.get("experts", call.attributes.get("heads", 1)))
    if name not in found:
        found[name] = _Sums(np.zeros((matrices, weight.columns)), np.zeros(matrices, np.int64))
    seen = found[name]
    squares = np.square(inputs[0], dtype=np.float64).reshape(len(inputs[0]), -1, weight.columns)
    if call.op == "moe_matmul":
        top_k = inputs[1].shape[1] // 2
        experts = inputs[1][:, :top_k].astype(np.int64)
        every = np.broadcast_to(squares, (len(squares), top_k, weight.columns))
        np.add.at(seen.sums, experts.reshape(-1), every.reshape(-1, weight.columns))
        seen.counts += np.bincount(experts.reshape(-1), minlength=matrices)
    else:
        seen.sums += squares.sum(axis=0)
        seen.counts += len(squares)
