"""Where scales can move between a model's weights and leave what it computes as it is.

The columns of matrices that read a value are multiplied by numbers above zero, and the weights that
the value is proportional to are divided by them: a norm's, the rows of `up` before `down`, those of
values before the output of attention. Found in the recorded program, so that architectures need no
lines of their own. Knows nothing of how scales are chosen.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgellm.gguf_loader import GGUFFile
from edgellm.kernels.program import OpCall, Program, Value, Weight
from edgellm.quantize.collect import products, tensor_name

Array = npt.NDArray[np.float32]
Index = npt.NDArray[np.intp]

_PART = re.compile(r"\[(?::, )?(\d+):")
_LINEAR = ("gated", "scale_heads", "multiply", "multiply_columns", "add_columns")


@dataclass(frozen=True)
class Maker:
    """Where the weights that a value is proportional to begin in a tensor: its row of a matrix, of
    each where there are several, or its number in a vector."""

    tensor: str
    first: int
    matrices: int | None = None  # None: a vector, or one for each expert


@dataclass(frozen=True)
class Fold:
    """Matrices that read one value, and what makes it. size: of the scales. spread: which scale
    each of the readers' columns gets."""

    makers: tuple[Maker, ...]
    readers: tuple[str, ...]
    size: int
    spread: Index


@dataclass
class Factors:
    """What a tensor's rows and columns are multiplied with; None: nothing."""

    rows: Array | None = None
    columns: Array | None = None

    def part(self, first: int, count: int) -> "Factors":
        """Of `count` rows from `first` on."""
        return Factors(
            None if self.rows is None else self.rows[first : first + count], self.columns
        )


class _Fixed(Exception):
    """Says why a value cannot be scaled."""


@dataclass
class Folds:
    """found: in program order. fixed: why other matrices keep their columns, by tensor name."""

    found: list[Fold] = field(default_factory=list)
    fixed: dict[str, str] = field(default_factory=dict)


def find_folds(program: Program, file: GGUFFile) -> Folds:
    """All of a model, each matrix in one of them at most."""
    reads = _Reads(program, file)
    folds = Folds()
    for value in dict.fromkeys(call.inputs[0] for call in products(program, file)):
        readers = tuple(
            dict.fromkeys(tensor_name(call.weights[0]) for call in reads.products[value])
        )
        try:
            folds.found.append(reads.fold(value, readers))
        except _Fixed as reason:
            folds.fixed |= dict.fromkeys(readers, str(reason))
    return folds


def factors_of(file: GGUFFile, scales: list[tuple[Fold, Array]]) -> Mapping[str, Factors]:
    """What becomes of each tensor that takes part, by name."""
    found: dict[str, Factors] = defaultdict(Factors)
    for fold, scale in scales:
        inverse = np.reciprocal(scale)
        for name in fold.readers:
            found[name].columns = scale[fold.spread]
        for maker in fold.makers:
            tensor, factors = file.tensors[maker.tensor], found[maker.tensor]
            if maker.matrices is None:
                factors.columns = _with(factors.columns, tensor.columns, maker.first, inverse, 1)
            else:
                height = tensor.rows // maker.matrices
                factors.rows = _with(factors.rows, height, maker.first, inverse, maker.matrices)
    return found


def scaled(values: Array, factors: Factors) -> Array:
    """A tensor's rows (n, columns), times what belongs to them."""
    if factors.columns is not None:
        values = values * factors.columns
    if factors.rows is not None:
        values = values * factors.rows[:, None]
    return values


def weaker(means: Array, factors: Factors) -> Array:
    """Means of squared inputs (experts, columns), when columns are multiplied instead."""
    if factors.columns is None:
        return means
    return np.divide(means, np.square(factors.columns), dtype=np.float32)


def _with(old: Array | None, size: int, first: int, scale: Array, repeats: int) -> Array:
    """`repeats` runs of `size` numbers, `scale` in each from `first` on, times those that are."""
    own = np.ones(size, np.float32)
    own[first : first + len(scale)] = scale
    every = np.tile(own, repeats)
    return every if old is None else old * every


class _Reads:
    """Who reads and who makes the values of a program."""

    def __init__(self, program: Program, file: GGUFFile) -> None:
        self._file = file
        self._makers = {call.output: call for call in program.calls if call.output is not None}
        self._uses = Counter(value for call in program.calls for value in call.inputs)
        self._uses.update(program.outputs.values())
        self._places = Counter(_place(call, w) for call in program.calls for w in call.weights)
        self._readers = {
            (tensor_name(w), call.inputs[:1]) for call in program.calls for w in call.weights
        }
        self._tensors = Counter(name for name, _ in self._readers)
        self._stores = {c.attributes["layer"]: c for c in program.calls if c.op == "store_kv"}
        self._attended = Counter(
            c.attributes["layer"] for c in program.calls if c.op == "attention"
        )
        self.products: dict[Value, list[OpCall]] = defaultdict(list)
        for call in program.calls:
            if call.op in ("matmul", "moe_matmul"):
                self.products[call.inputs[0]].append(call)

    def fold(self, value: Value, readers: tuple[str, ...]) -> Fold:
        """_Fixed where the value has other readers, or nothing that it is proportional to."""
        calls = self.products[value]
        if self._uses[value] != len(calls):
            raise _Fixed("what it reads is not read by matrices alone")
        sizes = {call.weights[0].columns for call in calls}
        if len(sizes) > 1 or any(self._tensors[name] > 1 for name in readers):
            raise _Fixed("it reads several values")
        makers, spread = self._made(value, sizes.pop())
        size = len(spread) if not len(spread) else int(spread.max()) + 1
        return Fold(tuple(makers), readers, size, spread)

    def _made(self, value: Value, columns: int) -> tuple[list[Maker], Index]:
        """What a value of so many columns (of each expert) is proportional to, and by which of its
        weights each column."""
        call = self._makers[value]
        spread = np.arange(columns)
        if call.op in ("rms_norm", "layer_norm"):
            if call.attributes["heads"] != 1 or not call.weights:
                raise _Fixed("the norm before it has no weight of its own for each number")
            return [self._vector(call, weight) for weight in call.weights], spread
        if call.op in ("matmul", "moe_matmul"):
            bias = call.weights[1:2] if call.attributes["bias"] else ()
            return [self._rows(call), *(self._vector(call, weight) for weight in bias)], spread
        if call.op == "attention":
            return self._values(call, columns)
        if call.op not in _LINEAR or call.attributes.get("activation") == "swiglu_clamped":
            raise _Fixed(f"what it reads comes from {call.op}")
        through = call.inputs[1 if call.op == "gated" else 0]
        makers, spread = self._made(self._sole(through), columns)
        if call.op == "add_columns":
            makers = [*makers, self._vector(call, call.weights[0])]
        return makers, spread

    def _values(self, call: OpCall, columns: int) -> tuple[list[Maker], Index]:
        """Heads that share values share scales."""
        layer = call.attributes["layer"]
        stored = self._stores[layer].inputs
        if len(stored) < 2 or stored[0] == stored[1] or self._attended[layer] > 1:
            raise _Fixed("the values that it reads serve as keys, or another layer")
        heads, kv_heads = int(call.attributes["num_heads"]), int(call.attributes["num_kv_heads"])
        size = int(call.attributes["value_dim"])
        makers, inner = self._made(self._sole(stored[1]), kv_heads * size)
        shared = np.arange(columns).reshape(kv_heads, heads // kv_heads, size)
        source = np.arange(kv_heads * size).reshape(kv_heads, 1, size)
        return makers, inner[np.broadcast_to(source, shared.shape).reshape(-1)]

    def _sole(self, value: Value) -> Value:
        if self._uses[value] > 1:
            raise _Fixed("what it reads is made of a value that is read elsewhere")
        return value

    def _rows(self, call: OpCall) -> Maker:
        weight = call.weights[0]
        first = int(call.attributes.get("first", 0))
        return self._maker(call, weight, first, int(call.attributes.get("experts", 1)))

    def _vector(self, call: OpCall, weight: Weight) -> Maker:
        return self._maker(call, weight, 0, None)

    def _maker(self, call: OpCall, weight: Weight, first: int, matrices: int | None) -> Maker:
        name, part = tensor_name(weight), _PART.search(weight.name)
        if name not in self._file.tensors or self._places[_place(call, weight)] > 1:
            raise _Fixed(f"{name} is no tensor of the file, or has other uses")
        return Maker(name, first + (int(part[1]) if part else 0), matrices)


def _place(call: OpCall, weight: Weight) -> tuple[str, object]:
    """What tells the parts of a tensor that calls use."""
    return weight.name, call.attributes.get("first") if call.op == "moe_matmul" else None
