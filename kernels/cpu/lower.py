"""From a Program to what a thread team runs: a table of kernel addresses and their words.

Three steps, each a plain function: `plan` turns ops into kernel calls with symbolic operands and
decides what is quantised; `place` gives every value a part of the arena by its lifetime;
`build_table` writes the words. Kernels document the order of their words; the functions here
follow it.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgellm.errors import BackendError
from edgellm.kernels.cpu import layout
from edgellm.kernels.cpu.objects import KernelKey
from edgellm.kernels.kv import KVArray, KVStorage
from edgellm.kernels.ops import OpCall, Program, Rows, Value, Weight


@dataclass(frozen=True, eq=False)
class Buffer:
    """Memory that one kernel writes and later ones read: `row_bytes` for each row."""

    rows: Rows
    row_bytes: int


@dataclass(frozen=True)
class BufferAddress:
    """A word that is where a buffer will lie."""

    buffer: Buffer


Word = int | BufferAddress


@dataclass(frozen=True)
class KernelCall:
    """One row of the op table before addresses are known."""

    key: KernelKey
    words: tuple[Word, ...]
    reads: tuple[Buffer, ...]
    writes: Buffer | None


@dataclass
class Plan:
    """Kernel calls in order, the buffer of each value, and arrays that must stay alive."""

    calls: list[KernelCall]
    buffers: dict[Value, Buffer]
    quantized: dict[Value, Buffer]
    keep: list[npt.NDArray[np.float32]]
    kv: KVStorage
    written: set[Buffer] = field(default_factory=set)

    def of(self, value: Value) -> BufferAddress:
        return BufferAddress(self.buffers[value])

    def new(self, value: Value) -> BufferAddress:
        self.buffers[value] = Buffer(value.rows, 4 * layout.padded(value.width))
        return self.of(value)

    def emit(self, key: KernelKey, *words: Word) -> None:
        """Appends a call; a buffer that no earlier call wrote is its output."""
        used = [w.buffer for w in words if isinstance(w, BufferAddress)]
        reads = tuple(b for b in used if b in self.written)
        fresh = [b for b in used if b not in self.written]
        self.written.update(fresh)
        self.calls.append(KernelCall(key, words, reads, fresh[0] if fresh else None))

    def vector(self, weight: Weight | None) -> int:
        """Address of a float32 vector, padded so that whole SIMD words may be read; 0 for none."""
        if weight is None:
            return 0
        if weight.format.name != "F32":
            raise BackendError(f"{weight.name}: vectors must be F32, not {weight.format.name}")
        values = weight.data.reshape(-1).view(np.float32)
        copy = np.zeros(layout.padded(len(values)), np.float32)
        copy[: len(values)] = values
        self.keep.append(copy)
        return copy.ctypes.data


def stride(value: Value) -> int:
    """Floats from one row to the next."""
    return layout.padded(value.width)


def count_word(value: Value) -> int:
    """Index of the step word that says how many rows a value has."""
    return layout.NUM_TOKENS if value.rows == "tokens" else layout.NUM_OUTPUTS


def float_word(value: float) -> int:
    """A float32's bits as an integer."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def address(weight: Weight) -> int:
    return int(weight.data.ctypes.data)


# ---------------------------------------------------------------- ops to kernel calls


def _embed(plan: Plan, call: OpCall) -> None:
    table, out = call.weights[0], _output(call)
    words = address(table), table.data.strides[0], table.columns
    factor = float_word(_number(call, "scale"))
    plan.emit(("embed", str(table.type_id)), *words, plan.new(out), stride(out), factor)


def _rms_norm(plan: Plan, call: OpCall) -> None:
    x, out = call.inputs[0], _output(call)
    weight = call.weights[0] if call.weights else None
    heads = _integer(call, "heads")
    plan.emit(
        ("rms_norm", "weighted" if weight else "plain"),
        count_word(x), plan.of(x), plan.new(out), stride(x),
        plan.vector(weight), x.width // heads, heads, float_word(_number(call, "eps")),
    )  # fmt: skip


def _quantize(plan: Plan, x: Value) -> Buffer:
    """The int8 form of a value, made when it is first asked for."""
    if x not in plan.quantized:
        plan.quantized[x] = Buffer(x.rows, layout.activation_row_bytes(x.width))
        out = BufferAddress(plan.quantized[x])
        words = count_word(x), plan.of(x), stride(x), out, out.buffer.row_bytes, x.width
        plan.emit(("quantize",), *words)
    return plan.quantized[x]


def _operand(plan: Plan, x: Value, weight: Weight) -> Buffer:
    """What a product with `weight` reads: int8 rows, or the float rows themselves."""
    return plan.buffers[x] if weight.format.unpack is None else _quantize(plan, x)


def _kernel(base: str, weight: Weight) -> KernelKey:
    return (base if weight.format.unpack else base.replace("matmul", "float_matmul"), *_id(weight))


def _id(weight: Weight) -> tuple[str]:
    return (str(weight.type_id),)


def _bias_and_scale(plan: Plan, call: OpCall) -> tuple[int, int]:
    extra = iter(call.weights[1:])
    bias = plan.vector(next(extra)) if call.attributes["bias"] else 0
    scale = plan.vector(next(extra)) if call.attributes["scale"] else 0
    return bias, scale


def _matmul(plan: Plan, call: OpCall) -> None:
    x, weight, out = call.inputs[0], call.weights[0], _output(call)
    operand = _operand(plan, x, weight)
    plan.emit(
        _kernel("matmul", weight),
        count_word(x), BufferAddress(operand), operand.row_bytes, plan.new(out), stride(out),
        address(weight), weight.data.strides[0], weight.rows, weight.columns,
        *_bias_and_scale(plan, call),
    )  # fmt: skip


def _add(plan: Plan, call: OpCall) -> None:
    (a, b), out = call.inputs, _output(call)
    plan.emit(("add",), count_word(a), plan.of(a), plan.of(b), plan.new(out), stride(a))


def _unary(attribute: str) -> Callable[[Plan, OpCall], None]:
    def lower(plan: Plan, call: OpCall) -> None:
        x, factor = call.inputs[0], float_word(_number(call, attribute))
        words = count_word(x), plan.of(x), plan.new(_output(call)), stride(x)
        plan.emit((call.op,), *words, factor)

    return lower


def _gated(plan: Plan, call: OpCall) -> None:
    (gate, up), out = call.inputs, _output(call)
    plan.emit(
        ("gated", str(call.attributes["activation"])),
        count_word(gate), plan.of(gate), plan.of(up), plan.new(out), stride(gate),
        float_word(_number(call, "alpha")), float_word(_number(call, "limit")),
    )  # fmt: skip


def _rope_table(plan: Plan, call: OpCall) -> None:
    frequencies, out = call.weights[0], _output(call)
    words = plan.new(out), stride(out), plan.vector(frequencies), frequencies.columns
    plan.emit(("rope_table",), *words, float_word(_number(call, "magnitude")))


def _rope(plan: Plan, call: OpCall) -> None:
    (x, table), out, heads = call.inputs, _output(call), _integer(call, "heads")
    plan.emit(
        ("rope", str(call.attributes["layout"])),
        plan.of(x), plan.new(out), stride(x), plan.of(table), stride(table),
        table.width // 2, heads, x.width // heads,
    )  # fmt: skip


def _cache_type(array: KVArray) -> str:
    return {"float32": "f32", "float16": "f16"}[array.dtype.name]


def _cache(plan: Plan, call: OpCall) -> tuple[KVArray, KVArray]:
    layer = _integer(call, "layer")
    return plan.kv.keys[layer], plan.kv.values[layer]


def _store_kv(plan: Plan, call: OpCall) -> None:
    (k, v), (keys, values) = call.inputs, _cache(plan, call)
    plan.emit(
        ("store_kv", _cache_type(keys), _cache_type(values)),
        plan.of(k), stride(k), plan.of(v), stride(v), keys.ctypes.data, values.ctypes.data,
        _integer(call, "group"), keys.shape[1], keys.shape[3],
    )  # fmt: skip


def _attention(plan: Plan, call: OpCall) -> None:
    q, out = call.inputs[0], _output(call)
    keys, values = _cache(plan, call)
    heads, kv_heads = _integer(call, "num_heads"), _integer(call, "num_kv_heads")
    if keys.shape[3] > layout.MAX_HEAD_DIM:
        most = layout.MAX_HEAD_DIM
        raise BackendError(f"heads of {keys.shape[3]} numbers: the cpu backend has at most {most}")
    sinks = plan.vector(call.weights[0]) if call.weights else 0
    plan.emit(
        ("attention", _cache_type(keys), _cache_type(values)),
        plan.of(q), stride(q), plan.new(out), stride(out), keys.ctypes.data, values.ctypes.data,
        _integer(call, "group"), heads, kv_heads, keys.shape[3],
        float_word(_number(call, "scale")), int(call.attributes.get("window", 0)),
        float_word(float(call.attributes.get("softcap", 0.0))), sinks,
    )  # fmt: skip


def _select_outputs(plan: Plan, call: OpCall) -> None:
    x = call.inputs[0]
    plan.emit(("select_outputs",), plan.of(x), plan.new(_output(call)), stride(x))


def _moe_route(plan: Plan, call: OpCall) -> None:
    scores, out = call.inputs[0], _output(call)
    bias = plan.vector(call.weights[0]) if call.weights else 0
    plan.emit(
        ("moe_route", str(call.attributes["gating"])),
        plan.of(scores), stride(scores), plan.new(out), stride(out), scores.width,
        _integer(call, "top_k"), bias, _integer(call, "normalize"),
        float_word(_number(call, "factor")),
    )  # fmt: skip


def _moe_matmul(plan: Plan, call: OpCall) -> None:
    (x, routing), weight, out = call.inputs, call.weights[0], _output(call)
    operand, experts = _operand(plan, x, weight), _integer(call, "experts")
    plan.emit(
        _kernel("moe_matmul", weight),
        BufferAddress(operand), operand.row_bytes, x.width, plan.new(out), stride(out),
        address(weight), weight.data.strides[0], weight.rows // experts, weight.columns, experts,
        *_bias_and_scale(plan, call), plan.of(routing), stride(routing), routing.width // 2,
    )  # fmt: skip


def _moe_combine(plan: Plan, call: OpCall) -> None:
    (x, routing), out = call.inputs, _output(call)
    plan.emit(
        ("moe_combine",),
        plan.of(x), stride(x), plan.new(out), stride(out), out.width,
        plan.of(routing), stride(routing), routing.width // 2,
    )  # fmt: skip


LOWERINGS: Mapping[str, Callable[[Plan, OpCall], None]] = {
    "embed": _embed,
    "rms_norm": _rms_norm,
    "matmul": _matmul,
    "add": _add,
    "multiply": _unary("factor"),
    "softcap": _unary("cap"),
    "gated": _gated,
    "rope_table": _rope_table,
    "rope": _rope,
    "store_kv": _store_kv,
    "attention": _attention,
    "select_outputs": _select_outputs,
    "moe_route": _moe_route,
    "moe_matmul": _moe_matmul,
    "moe_combine": _moe_combine,
}


def _output(call: OpCall) -> Value:
    assert call.output is not None
    return call.output


def _number(call: OpCall, name: str) -> float:
    return float(call.attributes[name])


def _integer(call: OpCall, name: str) -> int:
    return int(call.attributes[name])


def plan(program: Program, kv: KVStorage) -> Plan:
    """Kernel calls for a program; BackendError names an op that there is no kernel for."""
    result = Plan([], {}, {}, [], kv)
    for call in program.calls:
        lower = LOWERINGS.get(call.op)
        if lower is None:
            raise BackendError(f"the cpu backend has no kernel for the op {call.op!r}")
        lower(result, call)
    return result


# ---------------------------------------------------------------- memory and table


def place(
    calls: Iterable[KernelCall], kept: Iterable[Buffer], rows: Mapping[Rows, int]
) -> tuple[dict[Buffer, int], int]:
    """Offsets of all buffers in one arena, and its size in bytes.

    A buffer's room is free again after its last reader; `kept` buffers stay to the end. First fit
    over a list of free intervals.
    """
    calls = list(calls)
    last_use = {b: i for i, call in enumerate(calls) for b in (*call.reads, call.writes) if b}
    for buffer in kept:
        last_use[buffer] = len(calls)
    taken: list[tuple[int, int, Buffer]] = []  # (begin, end, owner) in address order
    offsets: dict[Buffer, int] = {}
    size = 0
    for i, call in enumerate(calls):
        if call.writes is not None and call.writes not in offsets:
            need = -(-call.writes.row_bytes * rows[call.writes.rows] // 64) * 64
            begin = 0
            for start, end, _ in taken:
                if start - begin >= need:
                    break
                begin = max(begin, end)
            offsets[call.writes] = begin
            taken.append((begin, begin + need, call.writes))
            taken.sort(key=lambda part: part[:2])
            size = max(size, begin + need)
        taken = [part for part in taken if last_use[part[2]] > i]
    return offsets, size


def build_table(
    calls: Iterable[KernelCall],
    offsets: Mapping[Buffer, int],
    arena: int,
    kernel_address: Callable[[KernelKey], int],
) -> npt.NDArray[np.int64]:
    """int64 (ops, OP_WORDS): each row the kernel's address, then its words."""
    calls = list(calls)
    table = np.zeros((len(calls), layout.OP_WORDS), np.int64)
    for row, call in zip(table, calls, strict=True):
        row[0] = kernel_address(call.key)
        for i, word in enumerate(call.words, start=1):
            row[i] = arena + offsets[word.buffer] if isinstance(word, BufferAddress) else word
    return table
