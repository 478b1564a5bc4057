"""What a product of a strip with activation rows adds up, as every kernel for them does.

Imported only when something has to be compiled.
"""

from typing import Any

from llvmlite import ir

from edgellm.kernels.cpu import layout
from edgellm.kernels.cpu.dot import Dot
from edgellm.kernels.cpu.emit import Emit, splat
from edgellm.kernels.cpu.four_rows import FourRows, FourRowsDot
from edgellm.kernels.cpu.strips import Strip
from edgellm.kernels.cpu.vectors import F32, I32, pick_lanes

COLUMNS = layout.ACTIVATION_BLOCK


class Product:
    """Adds scaled integer dot products to float accumulators."""

    def __init__(self, e: Emit, strip: Strip, group_size: int) -> None:
        self.e, self.strip, self.group_size = e, strip, group_size

    def _field(self, x: Any, block: int, at: int, kind: ir.Type) -> Any:
        return self.e.splat_load(self.e.at(x, block * layout.ACTIVATION_BYTES + at), kind)

    def start(self, x: Any, block: int, part: int) -> Any:
        """The integer sum before any product: -offset times the sum of the activations."""
        shift = self.strip.domain.shift
        if shift is None:
            return splat(self.e.dwords_type, 0)
        at = layout.MINUS_SUM if self.group_size == COLUMNS else layout.MINUS_SUM_16 + 4 * part
        total = self._field(x, block, at, I32)
        return total if shift == 0 else self.e.b.shl(total, splat(self.e.dwords_type, shift))

    def dot(self, start: Any) -> Any:
        """A dot.Dot, or what has its methods."""
        return Dot(self.e, self.strip.domain, start)

    def activations(self, x: Any, block: int, part: int, j: int) -> Any:
        """What vector j of a group is multiplied with: columns 4j to 4j + 3 in every lane."""
        e, group = self.e, self.group(x, block, part)
        if e.isa.has_dotprod:  # by element: one load for four of them
            four = e.load(e.at(group, 16 * (j // 4)), ir.VectorType(I32, 4))
            value = pick_lanes(e.b, four, four, [j % 4] * e.lanes)
        else:
            value = e.splat_load(e.at(group, 4 * j), I32)
        return e.b.bitcast(value, e.bytes_type)

    def group(self, x: Any, block: int, part: int) -> Any:
        """Where a group's activations are."""
        return self.e.at(x, block * layout.ACTIVATION_BYTES + part * self.group_size)

    def finish(
        self, acc: Any, total: Any, scale: Any, minimum: Any, x: Any, block: int, part: int
    ) -> Any:
        """acc + total * (scale * d), then + minimum * (d * sum)."""
        e = self.e
        d = self._field(x, block, layout.SCALE, F32)
        acc = e.fma(e.to_float(total), e.b.fmul(scale, d), acc)
        if minimum is None:
            return acc
        at = layout.SCALED_SUM if self.group_size == COLUMNS else layout.SCALED_SUM_16 + 4 * part
        return e.fma(minimum, self._field(x, block, at, F32), acc)


class FourRowsProduct(Product):
    """The same of a strip whose rows come four to a vector."""

    e: FourRows

    def dot(self, start: Any) -> FourRowsDot:
        return FourRowsDot(self.e, start)

    def activations(self, x: Any, block: int, part: int, j: int) -> Any:
        """Of 16 columns for each two vectors, one for every row."""
        return self.e.sixteen_of_one(self.group(x, block, part), 16 * (j // 2))
