"""The weights of one program on a device."""

from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.kernels.formats import by_name, dequantize_rows
from edgellm.kernels.opencl.context import Context
from edgellm.kernels.opencl.strips import to_strips
from edgellm.kernels.program import Weight


class Weights:
    """Each is there once. Vectors become float32."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._matrices: dict[tuple[int, int, int, int], Any] = {}
        self._vectors: dict[int, Any] = {}
        self._kept: list[npt.NDArray[np.uint8]] = []  # so that no address is used twice

    def matrix(self, weight: Weight, matrices: int = 1, part: slice | None = None) -> Any:
        """In strips (strips.py), each of so many equal matrices in strips of its own.

        part: the rows that are wanted of each.
        """
        rows = (part or slice(None)).indices(weight.rows // matrices)[:2]
        key = weight.data.ctypes.data, matrices, *rows
        if key not in self._matrices:
            if weight.format.name == "F64":  # rounded to float32, as the reference does
                fmt = by_name("F32")
                data = dequantize_rows(weight.format, weight.data).view(np.uint8)
            else:
                fmt, data = weight.format, weight.data
            wanted = [matrix[slice(*rows)] for matrix in np.split(data, matrices)]
            self._matrices[key] = to_strips(self._context, fmt, wanted, weight.name)
            self._kept.append(weight.data)
        return self._matrices[key]

    def vector(self, weight: Weight) -> Any:
        """All numbers of a small weight."""
        key = weight.data.ctypes.data
        if key not in self._vectors:
            numbers = dequantize_rows(weight.format, weight.data).reshape(-1)
            self._vectors[key] = self._context.upload(numbers, weight.name)
            self._kept.append(weight.data)
        return self._vectors[key]
