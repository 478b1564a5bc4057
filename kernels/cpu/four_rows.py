"""Weight rows four to a vector: for one token where vectors have 512 bits.

A vector holds 16 bytes of each of four rows, as they lie in the file, and two of them are the eight
rows of a strip. Products leave four sums to a row, which are added up once for each group: fewer
instructions than bringing four columns of every row together first. Sums of integers are exact, so
results have the same bits.
Imported only when something has to be compiled.
"""

from typing import Any

from llvmlite import ir

from edgellm.kernels.cpu.emit import NARROW, Emit, splat
from edgellm.kernels.cpu.halves import widen
from edgellm.kernels.cpu.vectors import I8, I16, I32, emit_call

ROWS = 4
_WIDE = ir.VectorType(I32, 16)


class FourRows(Emit):
    """An Emit whose vectors of bytes come in pairs: rows 0 to 3 of a strip, then 4 to 7.

    One value per row still goes to one of eight lanes.
    """

    def __init__(self, builder: Any) -> None:
        super().__init__(builder, NARROW)
        self.bytes_type = ir.VectorType(I8, 64)

    def _fours(self, rows: list[Any], offset: int) -> list[Any]:
        """16 bytes of each row as 32-bit words, four rows to a vector."""
        b, vectors = self.b, []
        for first in range(0, NARROW, ROWS):
            parts = [
                self.load(self.at(row, offset), ir.VectorType(I32, 4))
                for row in rows[first : first + ROWS]
            ]
            low, high = (
                b.shuffle_vector(parts[i], parts[i + 1], self.mask(list(range(8)))) for i in (0, 2)
            )
            vectors.append(b.shuffle_vector(low, high, self.mask(list(range(16)))))
        return vectors

    def columns16(self, rows: list[Any], offset: int) -> list[Any]:
        """16 bytes of each row, as two vectors."""
        return [self.b.bitcast(v, self.bytes_type) for v in self._fours(rows, offset)]

    def sixteen_of_one(self, address: Any, offset: int) -> Any:
        """16 bytes, for each of four rows."""
        part = self.load(self.at(address, offset), ir.VectorType(I32, 4))
        repeated = self.b.shuffle_vector(part, part, self.mask([0, 1, 2, 3] * ROWS))
        return self.b.bitcast(repeated, self.bytes_type)

    def heads(self, rows: list[Any], offset: int) -> list[Any]:
        first, second = self._fours(rows, offset)
        return [
            self.b.shuffle_vector(first, second, self.mask([4 * row + i for row in range(NARROW)]))
            for i in range(4)
        ]

    def halves(self, rows: list[Any], offset: int) -> Any:
        start = max(0, offset - 14)  # 16 bytes that lie inside the block
        return self._half(rows, start, offset - start)

    def head_half(self, rows: list[Any], offset: int) -> Any:
        return self._half(rows, 0, offset)

    def _half(self, rows: list[Any], start: int, offset: int) -> Any:
        """The IEEE half at `offset` of the 16 bytes at `start` of each row, widened."""
        b, kind = self.b, ir.VectorType(I16, 32)
        first, second = (b.bitcast(v, kind) for v in self._fours(rows, start))
        pick = self.mask([8 * row + offset // 2 for row in range(NARROW)])
        return widen(b, b.shuffle_vector(first, second, pick), self.isa)

    def head_bits(self, rows: list[Any], offset: int) -> list[Any]:
        b, zero = self.b, splat(self.bytes_type, 0)
        bit = ir.Constant(self.bytes_type, [1 << i % 8 for i in range(64)])
        heads, vectors = self.columns16(rows, 0), []
        for half in range(2):
            for head in heads:
                # As matrices: where row 3, for bit 4, is eight bits, byte i of eight gets bit i.
                pick = [
                    i // 16 * 16 + offset + 2 * half + i % 16 // 8 if i % 8 == 3 else 64
                    for i in range(64)
                ]
                matrices = b.shuffle_vector(head, zero, self.mask(pick))
                name = "llvm.x86.vgf2p8affineqb.512"
                vectors.append(emit_call(b, name, self.bytes_type, [bit, matrices, I8(0)]))
        return vectors

    def row_sums(self, first: Any, second: Any) -> Any:
        """The four 32-bit sums of each row, added: a lane per row."""
        b = self.b
        pairs = [
            b.shuffle_vector(
                first, second, self.mask([4 * row + part for part in parts for row in range(8)])
            )
            for parts in ((0, 1), (2, 3))
        ]
        added = b.add(*pairs)
        low, high = (
            b.shuffle_vector(added, added, self.mask(list(range(i, i + NARROW)))) for i in (0, 8)
        )
        return b.add(low, high)


class FourRowsDot:
    """What dot.Dot is, of vectors that come in pairs; with VNNI on 512 bits."""

    def __init__(self, emit: FourRows, start: Any) -> None:
        self._emit, self._start = emit, start
        self.live = [splat(_WIDE, 0), splat(_WIDE, 0)]
        self._turn = 0

    def add(self, w: Any, a: Any) -> None:
        """Adds the products of 16 columns of four rows."""
        e = self._emit
        args = [self.live[self._turn], w, a]
        self.live[self._turn] = emit_call(e.b, "llvm.x86.avx512.vpdpbusd.512", _WIDE, args)
        self._turn = 1 - self._turn

    def total(self) -> Any:
        """int32 lanes."""
        return self._emit.b.add(self._emit.row_sums(*self.live), self._start)
