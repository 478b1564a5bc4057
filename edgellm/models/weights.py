"""A file's tensors as Weights, each with the shape that the model needs. Knows no architecture.

Matrices stay views of the memory map; vectors are small and become float32.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGUFFile, TensorInfo
from edgellm.kernels.formats import FORMATS, Format, by_name, dequantize_rows
from edgellm.kernels.program import Weight

Blocks = npt.NDArray[np.uint8]

# Calibration data for quantised activations; nothing here multiplies by it.
IGNORED_SUFFIXES = (".input_scale",)
# Heads behind pooled rows (pooled_head.py); the program needs none of them.
IGNORED_PREFIXES = ("cls.", "dense_2.", "dense_3.")
DECODER = "dec."  # beside an encoder, which is what is run


@dataclass
class Weights:
    """Hands out tensors by their GGUF name and remembers which were asked for.

    absent, unused: names of a layer's tensors without "blk.N."; the first count as not there, and
    the second need not be read. part: what the file puts before "blk." where it holds more models
    than the one. num_layers: those above, which predict more than one token ahead, need not be read
    either.
    """

    file: GGUFFile
    absent: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    part: str = ""
    num_layers: int | None = None
    read: set[str] = field(default_factory=set)
    _offers: dict[str, dict[bool, str]] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether the file holds this tensor and the model has it."""
        return self._stored(name) in self.file.tensors and _of_layer(name) not in self.absent

    def leave(self, name: str) -> None:
        """A tensor that the file may bring and nobody needs."""
        self.read.add(name)

    def offers(self, name: str, kind: str = "") -> bool:
        """Like `has`, for what a family may have: one layer has it as all others of its kind do."""
        found = self.has(name)
        if not name.endswith(".scale"):  # belongs to a format, and layers may differ in format
            self._offers.setdefault(f"{_of_layer(name)} {kind}", {})[found] = name
        return found

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor that is there, in GGUF order without trailing ones."""
        return _plain(self.file.tensors[self._stored(name)].shape)

    def matrix(self, name: str, rows: int, columns: int, matrices: int = 1) -> Weight:
        """`matrices` of (rows, columns), one after another. GGUF shape (columns, rows, matrices).

        GGUFError when it is missing, of another shape, or of a type that has no arithmetic.
        """
        info = self._find(name, (columns, rows, matrices))
        fmt = _format(info)
        stored = np.asarray(self.file.data(info.name)).reshape(rows * matrices, -1)
        if fmt.name == "F64":
            fmt, stored = _as_float32(fmt, stored)
        return Weight(info.name, fmt.type_id, rows * matrices, columns, stored)

    def vector(self, name: str, size: int) -> Weight:
        """A float32 vector; GGUFError as for a matrix."""
        return self.matrix_float32(name, 1, size, shape=(size,))

    def optional_vector(self, name: str, size: int, kind: str = "") -> Weight | None:
        """A float32 vector, or None where the file has none. kind: as `offers` takes it."""
        return self.vector(name, size) if self.offers(name, kind) else None

    def optional_matrix_float32(self, name: str, rows: int, columns: int) -> Weight | None:
        """A small matrix, or None where the file has none."""
        return self.matrix_float32(name, rows, columns) if self.offers(name) else None

    def matrix_float32(
        self, name: str, rows: int, columns: int, shape: tuple[int, ...] | None = None
    ) -> Weight:
        """A small matrix (rows, columns), dequantised."""
        info = self._find(name, shape or (columns, rows))
        stored = np.asarray(self.file.data(info.name)).reshape(rows, -1)
        fmt, values = _as_float32(_format(info), stored)
        return Weight(info.name, fmt.type_id, rows, columns, values)

    def check(self, prefix: str = "") -> None:
        """GGUFError naming a tensor that nobody asked for, or that one layer lacks and others have.

        prefix: of the names of all that should have been asked for.

        Without it the result would be another model's.
        """
        self._compare_layers()
        for name in self.file.tensors:
            is_left = name.startswith(prefix) and name not in self.read
            if is_left and not self._may_be_left(name):
                raise GGUFError(
                    f"tensor {name} has no place in this architecture as edgellm knows it: "
                    "the model needs something that is not supported yet"
                )

    def _compare_layers(self) -> None:
        difference = self._difference()
        if difference is not None:
            raise GGUFError(difference)

    def _difference(self) -> str | None:
        """What one layer lacks and another has; None where all have the same."""
        for answers in self._offers.values():
            if len(answers) > 1:
                missing, found = self._stored(answers[False]), self._stored(answers[True])
                return (
                    f"tensor {missing} is missing, and the file has {found}: layers of one kind "
                    "have the same tensors"
                )
        return None

    def _may_be_left(self, name: str) -> bool:
        if self.part and name.startswith(DECODER):
            return True
        is_known = _of_layer(name) in (*self.absent, *self.unused) or self._is_beyond(name)
        of_nothing = f"{name.removesuffix('.scale')}.weight" not in self.file.tensors
        if name.endswith(".scale") and of_nothing:
            return True
        return is_known or name.endswith(IGNORED_SUFFIXES) or name.startswith(IGNORED_PREFIXES)

    def _is_beyond(self, name: str) -> bool:
        prefix, number, *_ = (*name.split(".", 2), "")
        if self.num_layers is None or prefix != "blk" or not number.isdecimal():
            return False
        return int(number) >= self.num_layers

    def _find(self, name: str, shape: tuple[int, ...]) -> TensorInfo:
        info = self.file.tensors.get(self._stored(name))
        if info is None:
            self._compare_layers()  # the layer may be of another kind for the lack of a tensor
            missing, wanted = self._stored(name), _plain(shape)
            raise GGUFError(f"tensor {missing} is missing, expected with shape {wanted}")
        if _plain(info.shape) != _plain(shape):
            reason = f"tensor {info.name} has shape {_plain(info.shape)}, expected {_plain(shape)}"
            raise GGUFError("; or ".join(filter(None, (reason, self._difference()))))
        self.read.add(info.name)
        return info

    def _stored(self, name: str) -> str:
        """What the file calls a tensor: some leave ".weight" off a norm or a bias."""
        name = f"{self.part}{name}" if name.startswith("blk.") else name
        short = name.removesuffix(".weight")
        return short if name not in self.file.tensors and short in self.file.tensors else name


def _of_layer(name: str) -> str:
    """The name without "blk.N."."""
    return name.split(".", 2)[-1] if name.startswith("blk.") else name


def rows_of(weight: Weight, first: int, count: int) -> Weight:
    """`count` output features of a matrix from `first` on: a view."""
    name = f"{weight.name}[{first}:{first + count}]"
    data = weight.data[first : first + count]
    return Weight(name, weight.type_id, count, weight.columns, data)


def part_of(vector: Weight, first: int, count: int) -> Weight:
    """`count` numbers of a float32 vector from `first` on: a view."""
    name = f"{vector.name}[{first}:{first + count}]"
    data = vector.data[:, 4 * first : 4 * (first + count)]
    return Weight(name, vector.type_id, 1, count, data)


def columns_of(matrix: Weight, columns: slice) -> Weight:
    """Columns of a float32 matrix: a copy."""
    first, last, _ = columns.indices(matrix.columns)
    data = np.ascontiguousarray(matrix.data[:, 4 * first : 4 * last])
    name = f"{matrix.name}[:, {first}:{last}]"
    return Weight(name, matrix.type_id, matrix.rows, last - first, data)


def float_matrix(name: str, values: npt.NDArray[np.float32]) -> Weight:
    """Numbers (rows, columns) that were reckoned from others, as a weight."""
    rows, columns = values.shape
    data = np.ascontiguousarray(values, np.float32).view(np.uint8)
    return Weight(name, by_name("F32").type_id, rows, columns, data)


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Without the trailing dimensions of 1 that a writer may add or leave out."""
    plain = tuple(int(n) for n in shape)
    while len(plain) > 1 and plain[-1] == 1:
        plain = plain[:-1]
    return plain


def _format(info: TensorInfo) -> Format:
    fmt = FORMATS.get(info.type_id)
    if fmt is None:
        raise GGUFError(f"tensor {info.name} is stored as {info.type_name}, not a type of weights")
    if info.columns % fmt.block_size:
        raise GGUFError(
            f"tensor {info.name} has rows of {info.columns} weights, "
            f"expected a multiple of {fmt.block_size} for {fmt.name}"
        )
    return fmt


def _as_float32(fmt: Format, stored: Blocks) -> tuple[Format, Blocks]:
    values = np.ascontiguousarray(dequantize_rows(fmt, stored), np.float32)
    return by_name("F32"), values.view(np.uint8)
