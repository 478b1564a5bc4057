"""Table entries and masks for codes in lanes or bytes."""

import hashlib
from typing import Any

from llvmlite import ir

from edgellm.kernels.cpu.emit import NARROW, Emit, splat
from edgellm.kernels.cpu.vectors import I1, I8, I32, emit_call, join_vectors, split_vector


def lookup(emit: Emit, table: list[int], index: Any) -> Any:
    """table[i] for every byte i in 0..15."""
    kind = index.type
    values = ir.Constant(kind, table * (kind.count // 16))
    if emit.isa.has_avx2:
        wide, narrow = "llvm.x86.avx512.pshuf.b.512", "llvm.x86.avx2.pshuf.b"
        name = narrow if kind.count == 32 else wide
        return emit_call(emit.b, name, kind, [values, index])
    if not emit.isa.is_x86:
        return _lookup_arm(emit, values, index)
    result: Any = splat(kind, table[0])
    for i in range(1, 16):
        is_it = emit.b.icmp_unsigned("==", index, splat(kind, i))
        result = emit.b.select(is_it, splat(kind, table[i]), result)
    return result


def _lookup_arm(emit: Emit, values: Any, index: Any) -> Any:
    """16 bytes at a time."""
    b, count = emit.b, index.type.count // 16
    pairs = zip(*(split_vector(b, v, count) for v in (values, index)), strict=True)
    name, kind = "llvm.aarch64.neon.tbl1.v16i8", ir.VectorType(I8, 16)
    return join_vectors(b, [emit_call(b, name, kind, list(pair)) for pair in pairs])


def gather(emit: Emit, table: list[int], index: Any) -> Any:
    """table[i], 32-bit words, for the index in every lane."""
    name = f"table_{hashlib.sha256(repr(table).encode()).hexdigest()[:16]}"
    place = emit.b.module.globals.get(name)
    if place is None:
        kind = ir.ArrayType(I32, len(table))
        place = ir.GlobalVariable(emit.b.module, kind, name)
        place.initializer = ir.Constant(kind, table)
        place.global_constant, place.linkage, place.align = True, "internal", 64
    if emit.isa.has_avx2:
        return _gather_x86(emit, place, index)
    result: Any = ir.Constant(emit.dwords_type, ir.Undefined)
    for lane in range(emit.lanes):
        at = emit.b.extract_element(index, I32(lane))
        word = emit.b.load(emit.b.gep(place, [I32(0), at]))
        result = emit.b.insert_element(result, word, I32(lane))
    return result


def _gather_x86(emit: Emit, place: Any, index: Any) -> Any:
    base = emit.b.bitcast(place, I8.as_pointer())
    empty = splat(emit.dwords_type, 0)
    if emit.lanes == NARROW:
        every, name = splat(emit.dwords_type, -1), "llvm.x86.avx2.gather.d.d.256"
        args = [empty, base, index, every, I8(4)]
    else:
        every = splat(ir.VectorType(I1, emit.lanes), 1)
        name = "llvm.x86.avx512.mask.gather.dpi.512"
        args = [empty, base, index, every, I32(4)]
    return emit_call(emit.b, name, emit.dwords_type, args)


def bit_mask(emit: Emit, dwords: Any, byte: int, first: int) -> Any:
    """255 in byte m of each lane whose bit `first` + m of byte `byte` is set, else 0."""
    source = emit.b.bitcast(dwords, emit.bytes_type)
    pick = [4 * (i // 4) + byte for i in range(4 * emit.lanes)]
    repeated = emit.b.shuffle_vector(source, source, emit.mask(pick))
    bits = ir.Constant(emit.bytes_type, [1 << first + i % 4 for i in range(4 * emit.lanes)])
    is_set = emit.b.icmp_unsigned("==", emit.b.and_(repeated, bits), bits)
    return emit.b.sext(is_set, emit.bytes_type)
