"""LLVM IR for lanes that are weight rows: loads, transposes, bits of stored integers.

Eight or sixteen weight rows go side by side and four of their columns fill a 32-bit lane, so that
a product of a row with an activation row never needs a horizontal sum. How many lanes there are
does not change a result. Used by strips/ (weights), dot.py and tiles.py (products). Knows
nothing of models. Imported only when something has to be compiled.
"""

from typing import Any

from llvmlite import ir

from edgellm.kernels.cpu.halves import widen
from edgellm.kernels.cpu.isa import Isa, host_isa
from edgellm.kernels.cpu.vectors import F32, I8, I16, I32, I64, emit_call

NARROW = 8


def wide_lanes() -> int:
    """Weight rows side by side where there is enough work for the widest vectors."""
    return 16 if host_isa().has_wide_vnni else NARROW


def splat(kind: ir.VectorType, value: int) -> ir.Constant:
    """The same integer in all elements."""
    return ir.Constant(kind, [value] * kind.count)


class Emit:
    """Writes instructions through a builder; every method returns the value it made.

    isa: what to write for; None is what this process compiles for.
    """

    def __init__(self, builder: Any, lanes: int, isa: Isa | None = None) -> None:
        self.b = builder
        self.isa = isa or host_isa()
        self.lanes = lanes
        self.dwords_type = ir.VectorType(I32, lanes)
        self.bytes_type = ir.VectorType(I8, 4 * lanes)
        self.words_type = ir.VectorType(I16, 2 * lanes)
        self.floats_type = ir.VectorType(F32, lanes)
        self.vector_bytes = 4 * lanes

    # ------------------------------------------------------------ memory

    def at(self, address: Any, offset: int) -> Any:
        """address + offset."""
        return address if offset == 0 else self.b.add(address, I64(offset))

    def load(self, address: Any, kind: ir.Type, align: int = 1) -> Any:
        value = self.b.load(self.b.inttoptr(address, kind.as_pointer()))
        value.align = align
        return value

    def store(self, address: Any, value: Any, align: int = 1) -> None:
        self.b.store(value, self.b.inttoptr(address, value.type.as_pointer())).align = align

    def splat_load(self, address: Any, kind: ir.Type) -> Any:
        """One 32-bit value from memory in all lanes."""
        empty = ir.Constant(ir.VectorType(kind, self.lanes), ir.Undefined)
        one = self.b.insert_element(empty, self.load(address, kind), I32(0))
        return self.b.shuffle_vector(one, empty, ir.Constant(self.dwords_type, [0] * self.lanes))

    # ------------------------------------------------------------ one value per row

    def dwords(self, rows: list[Any], offset: int) -> Any:
        """The 32-bit word at `offset` of each row."""
        value: Any = ir.Constant(self.dwords_type, ir.Undefined)
        for lane, row in enumerate(rows):
            word = self.load(self.at(row, offset), I32)
            value = self.b.insert_element(value, word, I32(lane))
        return value

    def halves(self, rows: list[Any], offset: int) -> Any:
        """The IEEE half at `offset` of each row, as float32."""
        value: Any = ir.Constant(ir.VectorType(I16, self.lanes), ir.Undefined)
        for lane, row in enumerate(rows):
            word = self.load(self.at(row, offset), I16)
            value = self.b.insert_element(value, word, I32(lane))
        return widen(self.b, value, self.isa)

    def heads(self, rows: list[Any], offset: int) -> list[Any]:
        """The 16 bytes at `offset` of each row as four 32-bit words. Unused ones cost nothing."""
        return [self.b.bitcast(v, self.dwords_type) for v in self.columns16(rows, offset)]

    def head_half(self, rows: list[Any], offset: int) -> Any:
        """The IEEE half at an even `offset` of the 16 bytes at the start of each row, widened."""
        word = self.heads(rows, 0)[offset // 4]
        return self.high_half(word) if offset % 4 else self.low_half(word)

    def head_bits(self, rows: list[Any], offset: int) -> list[Any]:
        """Bytes that are 16 where a bit is set, in as many vectors as 32 columns have: of the 32
        bits at an even `offset` of the 16 bytes at the start of each row.
        """
        words = self.heads(rows, 0)
        bits = words[offset // 4]
        if offset % 4:
            sixteen = splat(self.dwords_type, 16)
            rest = self.b.shl(words[offset // 4 + 1], sixteen)
            bits = self.b.or_(self.b.lshr(bits, sixteen), rest)
        return self._spread_bits(bits)

    def bytes_at(self, rows: list[Any], offset: int) -> Any:
        """The byte at `offset` of each row, zero-extended to 32 bits."""
        value: Any = ir.Constant(ir.VectorType(I8, self.lanes), ir.Undefined)
        for lane, row in enumerate(rows):
            byte = self.load(self.at(row, offset), I8)
            value = self.b.insert_element(value, byte, I32(lane))
        return self.b.zext(value, self.dwords_type)

    def low_half(self, dwords: Any) -> Any:
        """The low 16 bits of each lane as an IEEE half, widened."""
        words = self.b.trunc(dwords, ir.VectorType(I16, self.lanes))
        return widen(self.b, words, self.isa)

    def high_half(self, dwords: Any) -> Any:
        """The high 16 bits of each lane as an IEEE half, widened."""
        return self.low_half(self.b.lshr(dwords, splat(self.dwords_type, 16)))

    def field(self, dwords: Any, shift: int, bits: int) -> Any:
        """`bits` bits of each lane from `shift` on, as an unsigned number."""
        if shift:
            dwords = self.b.lshr(dwords, splat(self.dwords_type, shift))
        if shift + bits == 32:
            return dwords
        return self.b.and_(dwords, splat(self.dwords_type, (1 << bits) - 1))

    def signed_byte(self, dwords: Any, index: int) -> Any:
        """Byte `index` of each lane, sign-extended."""
        moved = self.b.shl(dwords, splat(self.dwords_type, 24 - 8 * index)) if index < 3 else dwords
        return self.b.ashr(moved, splat(self.dwords_type, 24))

    def float_constant(self, value: float) -> ir.Constant:
        """The same float in all lanes."""
        return ir.Constant(self.floats_type, [value] * self.lanes)

    def to_float(self, dwords: Any) -> Any:
        return self.b.sitofp(dwords, self.floats_type)

    # ------------------------------------------------------------ four columns per lane

    def columns16(self, rows: list[Any], offset: int) -> list[Any]:
        """16 bytes of each row, as 4 vectors of bytes: lane r of vector j is row r, bytes 4j.."""
        b, quads = self.b, self.lanes // 4
        loaded = [self.load(self.at(row, offset), ir.VectorType(I32, 4)) for row in rows]
        # Part q of vector i is row 4q + i: the transpose inside 128-bit parts gives row order.
        vectors = []
        for i in range(4):
            value = loaded[i]
            for q in range(1, quads):
                lanes = list(range(4 * (q + 1)))
                other = loaded[4 * q + i]
                if q == 1:
                    value = b.shuffle_vector(value, other, self.mask(lanes))
                else:
                    wide = b.shuffle_vector(other, other, self.mask([0, 1, 2, 3] * q))
                    keep = [*range(4 * q), *range(4 * q, 4 * q + 4)]
                    value = b.shuffle_vector(value, wide, self.mask(keep))
            vectors.append(value)

        def each(pattern: list[int]) -> ir.Constant:
            """A 128-bit pattern over (first, second) repeated for each part."""
            flat = [
                4 * q + p if p < 4 else self.lanes + 4 * q + p - 4
                for q in range(quads)
                for p in pattern
            ]
            return self.mask(flat)

        v0, v1, v2, v3 = vectors
        low01 = b.shuffle_vector(v0, v1, each([0, 4, 1, 5]))
        high01 = b.shuffle_vector(v0, v1, each([2, 6, 3, 7]))
        low23 = b.shuffle_vector(v2, v3, each([0, 4, 1, 5]))
        high23 = b.shuffle_vector(v2, v3, each([2, 6, 3, 7]))
        columns = [
            b.shuffle_vector(low01, low23, each([0, 1, 4, 5])),
            b.shuffle_vector(low01, low23, each([2, 3, 6, 7])),
            b.shuffle_vector(high01, high23, each([0, 1, 4, 5])),
            b.shuffle_vector(high01, high23, each([2, 3, 6, 7])),
        ]
        return [b.bitcast(column, self.bytes_type) for column in columns]

    def columns32(self, rows: list[Any], offset: int) -> list[Any]:
        """32 bytes of each row as 8 vectors, as columns16."""
        return self.columns16(rows, offset) + self.columns16(rows, offset + 16)

    def mask(self, lanes: list[int]) -> ir.Constant:
        """Which lanes a shuffle takes."""
        return ir.Constant(ir.VectorType(I32, len(lanes)), lanes)

    def masked(self, value: Any, mask: int) -> Any:
        """Every byte & mask."""
        return self.b.and_(value, splat(value.type, mask))

    def moved(self, value: Any, shift: int, mask: int) -> Any:
        """Every byte >> shift (<< -shift) & mask, which has none of the bits shifted in."""
        b = self.b
        if shift == 0:
            return self.masked(value, mask)
        if self.isa.has_gfni:
            # Row 7 - i of each 8x8 matrix says which bits of a byte make bit i of the result.
            rows = [1 << i + shift if mask >> i & 1 else 0 for i in range(7, -1, -1)]
            matrix = ir.Constant(value.type, rows * (value.type.count // 8))
            name = f"llvm.x86.vgf2p8affineqb.{8 * value.type.count}"
            return emit_call(b, name, value.type, [value, matrix, I8(0)])
        dwords_type = ir.VectorType(I32, value.type.count // 4)
        move = b.lshr if shift > 0 else b.shl
        whole = move(b.bitcast(value, dwords_type), splat(dwords_type, abs(shift)))
        return self.masked(b.bitcast(whole, value.type), mask)

    def low_nibbles(self, value: Any) -> Any:
        return self.masked(value, 15)

    def high_nibbles(self, value: Any) -> Any:
        return self.moved(value, 4, 15)

    def _spread_bits(self, dwords: Any) -> list[Any]:
        """8 vectors of bytes: 16 in byte m of a lane of vector j where its bit 4j + m is set."""
        b, count = self.b, self.bytes_type.count
        source = b.bitcast(dwords, self.bytes_type)
        if self.isa.has_vbmi:
            name = f"llvm.x86.avx512.pmultishift.qb.{8 * count}"
            vectors = []
            for j in range(8):  # the byte that has the wanted bit as its bit 4
                first = [(32 * (i // 4 % 2) + 4 * j + i % 4 - 4) % 64 for i in range(count)]
                control = ir.Constant(self.bytes_type, first)
                byte = emit_call(b, name, self.bytes_type, [control, source])
                vectors.append(self.masked(byte, 16))
            return vectors
        raised = self.moved(source, -4, 240)
        return [self._spread(source if j % 2 else raised, j // 2) for j in range(8)]

    def _spread(self, source: Any, byte: int) -> Any:
        """16 in byte m of a lane where bit 4 + m of its byte `byte` is set.

        Any bit kept is at least 16, so the smaller of it and 16 is 16.
        """
        pick = [4 * (i // 4) + byte for i in range(4 * self.lanes)]
        repeated = self.b.shuffle_vector(source, source, self.mask(pick))
        bits = ir.Constant(self.bytes_type, [16 << (i % 4) for i in range(4 * self.lanes)])
        return emit_call(
            self.b,
            f"llvm.umin.v{self.bytes_type.count}i8",
            self.bytes_type,
            [self.b.and_(repeated, bits), splat(self.bytes_type, 16)],
        )

    def flip_sign_bit(self, value: Any) -> Any:
        """int8 -> the same plus 128 as an unsigned byte."""
        return self.b.xor(value, splat(value.type, 128))

    def as_bytes(self, value: Any) -> Any:
        """The same bits as a vector of bytes."""
        dwords = value.type.count
        return self.b.bitcast(value, ir.VectorType(I8, 4 * dwords))

    # ------------------------------------------------------------ products

    def pin(self, values: list[Any]) -> list[Any]:
        """The same vectors, which the compiler may neither recompute nor reorder around here.

        Left alone it moves loads and sums across an unrolled loop until registers run out. Only
        needed where there are 16 registers, and only done where a register holds a vector.
        """
        if not values or not self.isa.has_avx2 or self.isa.vector_registers > 16:
            return values
        kinds = [v.type for v in values]
        result = kinds[0] if len(kinds) == 1 else ir.LiteralStructType(kinds)
        constraints = ["=x"] * len(kinds) + [str(i) for i in range(len(kinds))] + ["~{memory}"]
        function = ir.FunctionType(result, kinds)
        pinned = self.b.asm(function, "", ",".join(constraints), values, True)
        if len(kinds) == 1:
            return [pinned]
        return [self.b.extract_value(pinned, i) for i in range(len(kinds))]

    def keep_order(self) -> None:
        """Nothing that touches memory moves past this point."""
        self.b.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], True)

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """x * y + z, rounded once."""
        return emit_call(self.b, f"llvm.fma.v{self.lanes}f32", self.floats_type, [x, y, z])
