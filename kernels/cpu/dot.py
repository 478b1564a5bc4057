"""Integer dot products of weight rows, in the instructions that the processor has for them.

All of them are exact. Knows nothing of where weights come from.
Imported only when something has to be compiled.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from llvmlite import ir

from edgellm.kernels.cpu.domain import Domain
from edgellm.kernels.cpu.emit import Emit, splat
from edgellm.kernels.cpu.vectors import I1, I32, emit_call, join_vectors, split_vector

_PART_DWORDS = ir.VectorType(I32, 4)


class Dot:
    """A running integer dot product of weight rows with one activation row, per lane.

    With AVX2 and no VNNI, products of small integers are first summed in 16 bits: as many as cannot
    overflow with activations in -127..127.
    """

    def __init__(self, emit: Emit, domain: Domain, start: Any) -> None:
        self._emit, self._domain = emit, domain
        self._total = start
        self._pairs: Any = None
        self._pending = 0
        self._budget = max(1, 32767 // (2 * 127 * domain.top))

    def add(self, w: Any, a: Any) -> None:
        """Adds the products of four columns per lane."""
        isa = self._emit.isa
        if isa.has_vnni:
            self._add_vnni(w, a)
        elif isa.has_avx2:
            self._add_pairs(w, a)
        elif isa.has_dotprod:
            self._add_parts(w, a)
        else:
            self._add_products(w, a)

    def _add_vnni(self, w: Any, a: Any) -> None:
        e = self._emit
        name = f"llvm.x86.avx512.vpdpbusd.{32 * e.lanes}"
        self._total = emit_call(e.b, name, e.dwords_type, [self._total, w, a])

    def _add_parts(self, w: Any, a: Any) -> None:
        """Signed times signed, 128 bits at a time."""
        assert self._domain.top <= 127, "unsigned integers that are no int8"
        b, count = self._emit.b, self._emit.lanes // 4
        parts = zip(*(split_vector(b, v, count) for v in (self._total, w, a)), strict=True)
        name, result = "llvm.aarch64.neon.sdot.v4i32.v16i8", _PART_DWORDS
        self._total = join_vectors(b, [emit_call(b, name, result, list(part)) for part in parts])

    def _add_products(self, w: Any, a: Any) -> None:
        """Every product in 32 bits."""
        e = self._emit
        b = e.b
        widen = b.sext if self._domain.is_signed else b.zext
        wide = ir.VectorType(I32, 4 * e.lanes)
        products = b.mul(widen(w, wide), b.sext(a, wide))
        for part in range(4):
            lanes = [4 * i + part for i in range(e.lanes)]
            mask = ir.Constant(e.dwords_type, lanes)
            self._total = b.add(self._total, b.shuffle_vector(products, products, mask))

    def _add_pairs(self, w: Any, a: Any) -> None:
        """256-bit vectors only: wider ones come with VNNI."""
        e = self._emit
        b = e.b
        if self._domain.is_signed:
            a = emit_call(b, "llvm.x86.avx2.psign.b", e.bytes_type, [a, w])
            w = emit_call(b, f"llvm.abs.v{4 * e.lanes}i8", e.bytes_type, [w, I1(0)])
        pairs = emit_call(b, "llvm.x86.avx2.pmadd.ub.sw", e.words_type, [w, a])
        self._pairs = pairs if self._pairs is None else b.add(self._pairs, pairs)
        self._pending += 1
        if self._pending == self._budget:
            self._flush()

    @property
    def live(self) -> list[Any]:
        """What is held in registers now."""
        return [v for v in (self._total, self._pairs) if v is not None]

    @live.setter
    def live(self, values: list[Any]) -> None:
        self._total, *rest = values
        self._pairs = rest[0] if rest else None

    def _flush(self) -> None:
        e = self._emit
        b = e.b
        if self._pairs is not None:
            args = [self._pairs, splat(e.words_type, 1)]
            sums = emit_call(b, "llvm.x86.avx2.pmadd.wd", e.dwords_type, args)
            self._total = b.add(self._total, sums)
        self._pairs, self._pending = None, 0

    def total(self) -> Any:
        """int32 lanes."""
        self._flush()
        return self._total


class Live(Protocol):
    """What holds vectors in registers."""

    live: list[Any]


def pin_all(emit: Emit, dots: Iterable[Live]) -> None:
    """Pins what all of them hold; see Emit.pin."""
    dots = list(dots)
    pinned = iter(emit.pin([v for dot in dots for v in dot.live]))
    for dot in dots:
        dot.live = [next(pinned) for _ in dot.live]
