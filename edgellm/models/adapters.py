"""Low-rank adapters and control vectors from GGUF files. Knows no blocks of models.

A LoRA file holds for a tensor T of a model two matrices, T.lora_a and T.lora_b; what T multiplies
is changed by alpha / rank * B (A x). A control vector file holds direction.N, which is added to the
output of layer N. Sources: Hu et al. 2021; Zou et al. 2023.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGUFFile
from edgellm.kernels.program import Weight
from edgellm.models.weights import Weights

_A, _B = ".lora_a", ".lora_b"
_DIRECTION = "direction."


@dataclass(frozen=True, eq=False)
class LowRank:
    """a: (matrices * rank, columns), b: (matrices * rows, rank); factor multiplies their product.

    matrices: 1, or the number of experts.
    """

    a: Weight
    b: Weight
    matrices: int
    factor: float

    @property
    def rank(self) -> int:
        return self.b.columns

    @property
    def rows(self) -> int:
        """Of one matrix that it changes."""
        return self.b.rows // self.matrices


@dataclass(frozen=True, eq=False)
class Adapter:
    """What one file changes. pairs: by the tensor's name; directions: by layer."""

    name: str
    pairs: Mapping[str, LowRank] = field(default_factory=dict)
    directions: Mapping[int, Weight] = field(default_factory=dict)


def read_adapter(file: GGUFFile, name: str, architecture: str) -> Adapter:
    """The adapter in `file`, for a model of `architecture`. The file must stay open as long.

    GGUFError says what is wrong with the file, by the adapter's name; whether its shapes fit is
    known only when the model is recorded.
    """
    found = file.string("general.architecture")
    if found == "controlvector":
        return Adapter(name, directions=_directions(file, name, architecture))
    kind = file.string("adapter.type")
    if file.string("general.type") != "adapter" or kind is None:
        raise GGUFError(
            f"adapter {name}: {file.path} is no adapter: expected a GGUF file of general.type "
            "'adapter', or a control vector"
        )
    if kind != "lora" or "adapter.alora.invocation_tokens" in file.metadata:
        raise GGUFError(
            f"adapter {name} is of the type {kind!r} or switches itself on: only plain "
            "'lora' is supported"
        )
    if found != architecture:
        raise GGUFError(f"adapter {name} is for {found!r} models, and this is {architecture!r}")
    alpha = file.number("adapter.lora.alpha") or 0.0
    return Adapter(name, pairs=_pairs(file, name, alpha))


def _pairs(file: GGUFFile, name: str, alpha: float) -> dict[str, LowRank]:
    bases = [tensor.removesuffix(_A) for tensor in file.tensors if tensor.endswith(_A)]
    known = {base + suffix for base in bases for suffix in (_A, _B)}
    for tensor in file.tensors:
        if tensor not in known:
            raise GGUFError(f"adapter {name}: tensor {tensor} has no partner in {_A} and {_B}")
    if not bases:
        raise GGUFError(f"adapter {name} holds no tensors")
    return {base: _pair(file, name, base, alpha) for base in bases}


def _pair(file: GGUFFile, name: str, base: str, alpha: float) -> LowRank:
    weights = Weights(file)
    if not weights.has(base + _B):
        raise GGUFError(f"adapter {name}: tensor {base}{_A} has no partner {base}{_B}")
    a, b = (_shape(weights.shape(base + suffix)) for suffix in (_A, _B))
    columns, rank, matrices = a
    if b[0] != rank or b[2] != matrices:
        raise GGUFError(
            f"adapter {name}: {base}{_A} has shape {weights.shape(base + _A)} and {_B} "
            f"{weights.shape(base + _B)}: expected (columns, rank) and (rank, rows)"
        )
    return LowRank(
        weights.matrix(base + _A, rank, columns, matrices),
        weights.matrix(base + _B, b[1], rank, matrices),
        matrices,
        alpha / rank if alpha else 1.0,
    )


def _shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Columns, rows, matrices."""
    columns, rows, matrices = (*shape, 1, 1)[:3]
    return columns, rows, matrices


def _directions(file: GGUFFile, name: str, architecture: str) -> dict[int, Weight]:
    hint = file.string("controlvector.model_hint")
    if hint is not None and hint != architecture:
        raise GGUFError(f"adapter {name} is for {hint!r} models, and this is {architecture!r}")
    weights = Weights(file)
    directions = {}
    for tensor in file.tensors:
        number = tensor.removeprefix(_DIRECTION)
        shape = weights.shape(tensor)
        if number == tensor or not number.isdecimal() or len(number) > 4 or len(shape) != 1:
            raise GGUFError(
                f"adapter {name}: tensor {tensor} of shape {shape} is no direction: "
                "expected vectors direction.N"
            )
        directions[int(number)] = weights.vector(tensor, shape[0])
    if not directions:
        raise GGUFError(f"adapter {name} holds no directions")
    return directions
