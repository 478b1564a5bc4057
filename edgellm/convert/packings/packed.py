"""The tensors of a quantised checkpoint, taken away as they are understood."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.convert.safetensors import Stored
from edgellm.errors import GGUFError, RequestError
from edgellm.kernels.formats import by_name, dequantize_rows

Array = npt.NDArray[Any]

_DTYPES = {
    **{"I32": "<i4", "I64": "<i8", "U8": "u1", "I8": "i1", "I16": "<i2", "F32": "<f4"},
    **{"F16": "<f2", "F64": "<f8", "F8_E4M3": "u1", "F8_E5M2": "u1", "F8_E8M0": "u1"},
}


@dataclass(frozen=True, eq=False)
class Packed:
    """tensors: those that are left, by name. config: of quantisation."""

    folder: Path
    tensors: dict[str, Stored]
    config: Mapping[str, Any]

    def names(self, suffix: str) -> list[str]:
        """What stands before `suffix` in names of tensors that are left."""
        return [n.removesuffix(suffix) for n in self.tensors if n.endswith(suffix)]

    def take(self, name: str) -> Stored:
        """A tensor; GGUFError when it is missing."""
        stored = self.tensors.pop(name, None)
        if stored is None:
            raise GGUFError(f"{self.folder}: the tensor {name!r} is missing")
        return stored

    def drop(self, *names: str) -> None:
        """Tensors that say nothing more, where they are there."""
        for name in names:
            self.tensors.pop(name, None)

    def integer(self, name: str, default: int) -> int:
        value = self.config.get(name, default)
        if type(value) is not int:
            raise self.refuse(name, value, "a whole number")
        return value

    def refuse(self, name: str, value: object, expected: str) -> RequestError:
        return RequestError(
            f"{self.folder}: quantization_config has {name} {str(value)[:60]!r}, expected "
            f"{expected}",
            "folder",
        )


def origin(stored: Stored) -> str:
    return f"{stored.path}: tensor {stored.name!r}"


def shaped(stored: Stored, shape: tuple[int, ...], dtypes: tuple[str, ...] = ()) -> Stored:
    """The same; GGUFError when it has another shape, or none of the dtypes."""
    if stored.shape != shape:
        raise GGUFError(f"{origin(stored)} has the shape {stored.shape}, expected {shape}")
    if dtypes and stored.dtype not in dtypes:
        raise GGUFError(f"{origin(stored)} is {stored.dtype}, expected {' or '.join(dtypes)}")
    return stored


def numbers(stored: Stored) -> Array:
    """The mapped numbers; BF16 as float32, eight-bit floats as codes."""
    if stored.dtype == "BF16":
        flat = stored.data.reshape(-1, max(1, stored.shape[-1] if stored.shape else 1) * 2)
        return dequantize_rows(by_name("BF16"), flat).reshape(stored.shape)
    if stored.dtype not in _DTYPES:
        raise GGUFError(f"{origin(stored)} is {stored.dtype}, which was not expected")
    return stored.data.view(_DTYPES[stored.dtype]).reshape(stored.shape)


def floats(stored: Stored) -> npt.NDArray[np.float32]:
    """As float32."""
    return np.asarray(numbers(stored), np.float32)
