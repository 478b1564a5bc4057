"""Atomic words, waiting, indirect calls and processor modes inside Numba-compiled functions.

Imported only when something has to be compiled.
"""

from typing import Any

from llvmlite import ir
from numba.core import types

from edgellm.kernels.cpu.isa import host_isa
from edgellm.kernels.cpu.vectors import I8, I32, I64, Pointer, emit_call, fixed_intrinsic, prefetch

WORD = Pointer(types.int64)
# Results and operands that are denormal count as zero: MXCSR on x86, FPCR on AArch64.
X86_FLUSH_TO_ZERO, ARM_FLUSH_TO_ZERO = 0x8040, 1 << 24


@fixed_intrinsic(types.int64, WORD)
def atomic_load(b: Any, word: Any) -> Any:
    """Sequentially consistent read."""
    return b.load_atomic(word, "seq_cst", 8)


@fixed_intrinsic(types.void, WORD, types.int64)
def atomic_store(b: Any, word: Any, value: Any) -> None:
    """Sequentially consistent write."""
    b.store_atomic(value, word, "seq_cst", 8)


@fixed_intrinsic(types.int64, WORD)
def load_acquire(b: Any, word: Any) -> Any:
    """Read before all that follows: with it comes what was written before a store_release."""
    return b.load_atomic(word, "acquire", 8)


@fixed_intrinsic(types.void, WORD, types.int64)
def store_release(b: Any, word: Any, value: Any) -> None:
    """Write after all that comes before; what follows does not wait for it."""
    b.store_atomic(value, word, "release", 8)


@fixed_intrinsic(types.int64, WORD, types.int64)
def atomic_add(b: Any, word: Any, value: Any) -> Any:
    """Adds and returns what was there before."""
    return b.atomic_rmw("add", word, value, "seq_cst")


@fixed_intrinsic(types.int64, WORD, types.int64, types.int64)
def atomic_exchange_if(b: Any, word: Any, expected: Any, value: Any) -> Any:
    """Writes `value` where `expected` was; returns what was there before."""
    return b.extract_value(b.cmpxchg(word, expected, value, "seq_cst", "seq_cst"), 0)


@fixed_intrinsic(types.void)
def pause(b: Any) -> None:
    """Tells the core that this is a waiting loop."""
    if host_isa().is_x86:
        emit_call(b, "llvm.x86.sse2.pause", ir.VoidType(), [])
    else:
        # What AArch64 calls `yield` does nothing on most; this takes a pause's 10 ns.
        emit_call(b, "llvm.aarch64.isb", ir.VoidType(), [I32(15)])


@fixed_intrinsic(types.void, types.int64)
def ask_for(b: Any, address: Any) -> None:
    """Has the line at an address brought to the second-level cache, if it is in memory."""
    prefetch(b, address, 2)


@fixed_intrinsic(types.void, types.int64, WORD, WORD, types.int64, types.int64)
def call_kernel(b: Any, address: Any, args: Any, step: Any, thread: Any, threads: Any) -> None:
    """Calls a kernel by its address."""
    values = [args, step, thread, threads]
    kind = ir.FunctionType(ir.VoidType(), [v.type for v in values])
    b.call(b.inttoptr(address, kind.as_pointer()), values)


@fixed_intrinsic(types.void, types.int64)
def call_yield(b: Any, address: Any) -> None:
    """Calls `int f(void)` by its address."""
    kind = ir.FunctionType(I32, [])
    b.call(b.inttoptr(address, kind.as_pointer()), [])


@fixed_intrinsic(types.int64, types.int64, types.int64, WORD, types.int64)
def call_file(b: Any, address: Any, file: Any, buffer: Any, size: Any) -> Any:
    """Calls `read` or `write` by its address: (int, void *, size_t) to the bytes done."""
    values = [b.trunc(file, I32), buffer, size]
    # Windows returns an int: all that counts is in the lower half.
    kind = ir.FunctionType(I32, [v.type for v in values])
    return b.sext(b.call(b.inttoptr(address, kind.as_pointer()), values), I64)


@fixed_intrinsic(types.void, types.int64, types.int64, types.int64, types.int64)
def call_advise(b: Any, address: Any, begin: Any, size: Any, advice: Any) -> None:
    """Calls `madvise` by its address: (void *, size_t, int). What it says is of no use."""
    values = [b.inttoptr(begin, I8.as_pointer()), size, b.trunc(advice, I32)]
    kind = ir.FunctionType(I32, [v.type for v in values])
    b.call(b.inttoptr(address, kind.as_pointer()), values)


@fixed_intrinsic(types.int64)
def set_float_mode(b: Any) -> Any:
    """Switches denormals off in this thread; returns the mode to restore."""
    if not host_isa().is_x86:
        mode = emit_call(b, "llvm.aarch64.get.fpcr", I64, [])
        _load_fpcr(b, b.or_(mode, I64(ARM_FLUSH_TO_ZERO)))
        return mode
    place = b.alloca(I32)
    address = b.bitcast(place, I8.as_pointer())
    emit_call(b, "llvm.x86.sse.stmxcsr", ir.VoidType(), [address])
    before = b.load(place)
    _load_mxcsr(b, b.or_(before, I32(X86_FLUSH_TO_ZERO)))
    return b.zext(before, I64)


@fixed_intrinsic(types.void, types.int64)
def restore_float_mode(b: Any, mode: Any) -> None:
    """Undoes set_float_mode."""
    if host_isa().is_x86:
        _load_mxcsr(b, b.trunc(mode, I32))
    else:
        _load_fpcr(b, mode)


def _load_mxcsr(b: Any, mode: Any) -> None:
    place = b.alloca(I32)
    b.store(mode, place)
    address = b.bitcast(place, I8.as_pointer())
    emit_call(b, "llvm.x86.sse.ldmxcsr", ir.VoidType(), [address])


def _load_fpcr(b: Any, mode: Any) -> None:
    emit_call(b, "llvm.aarch64.set.fpcr", ir.VoidType(), [mode])
