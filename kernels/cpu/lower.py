"""From the ops of a Program to kernel calls: one small function per op.

Kernels document the order of their words; the functions here follow it. What can be done in the
same pass over the data is left to one kernel: an addition to the norm after it, the int8 form of
a value to whoever writes it.
"""

import struct
from collections.abc import Callable, Mapping

from edgellm.errors import BackendError
from edgellm.kernels.cpu import layout
from edgellm.kernels.cpu.objects import KernelKey
from edgellm.kernels.cpu.plan import Buffer, BufferAddress, Partition, Plan, Word
from edgellm.kernels.kv import KVArray, KVStorage
from edgellm.kernels.ops import OpCall, Program, Value, Weight

FLOAT_FORMATS = ("F32", "F16", "BF16")  # weights that are multiplied as they are


def stride(value: Value) -> int:
    """Floats from one row to the next."""
    return layout.padded(value.width)


def count_word(value: Value) -> int:
    """Index of the step word that says how many rows a value has."""
    return layout.NUM_TOKENS if value.rows == "tokens" else layout.NUM_OUTPUTS


def _by_rows(value: Value, heads: int = 1) -> Partition:
    """Kernels that share out the heads of rows."""
    return count_word(value), heads


def float_word(value: float) -> int:
    """A float32's bits as an integer."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def address(weight: Weight) -> int:
    """Where the weight lies."""
    return int(weight.data.ctypes.data)


def _embed(plan: Plan, call: OpCall) -> None:
    table, out = call.weights[0], _output(call)
    source = address(table), table.data.strides[0], table.columns
    factor = float_word(_number(call, "scale"))
    words = *source, plan.new(out), stride(out), factor
    plan.emit(("embed", str(table.type_id)), *words, partition=_by_rows(out))


def _rms_norm(plan: Plan, call: OpCall) -> None:
    """Also does the addition that was left to it, and the int8 form of its result."""
    x, out, heads = call.inputs[0], _output(call), _integer(call, "heads")
    weight = call.weights[0] if call.weights else None
    a, b, total = (plan.of(x), 0, 0) if x not in plan.sums else _pending_sum(plan, x)
    is_int8 = heads == 1 and plan.wants_int8(out)
    plan.emit(
        ("rms_norm", "weighted" if weight else "plain"),
        count_word(x), a, b, total, plan.new(out), stride(x),
        plan.vector(weight), x.width // heads, heads, float_word(_number(call, "eps")),
        plan.new_int8(out) if is_int8 else 0, layout.activation_row_bytes(out.width),
        partition=_by_rows(x, heads),
    )  # fmt: skip


def _pending_sum(plan: Plan, x: Value) -> tuple[Word, Word, Word]:
    """Both operands of an addition, and room for its result."""
    a, b = plan.sums.pop(x)
    return plan.of(a), plan.of(b), plan.new(x)


def _add(plan: Plan, call: OpCall) -> None:
    (a, b), out = call.inputs, _output(call)
    first = next(iter(plan.readers(out)), None)
    if first is not None and first.op == "rms_norm" and _integer(first, "heads") == 1:
        plan.sums[out] = a, b
        return
    plan.emit(("add",), count_word(a), plan.of(a), plan.of(b), plan.new(out), stride(a))


def _quantize(plan: Plan, x: Value) -> Buffer:
    """The int8 form of a value; made here when whoever wrote it could not."""
    if x not in plan.quantized:
        words = count_word(x), plan.of(x), stride(x), plan.new_int8(x)
        plan.emit(("quantize",), *words, layout.activation_row_bytes(x.width), x.width)
    return plan.quantized[x]


def _operand(plan: Plan, x: Value, weight: Weight) -> Buffer:
    """What a product with `weight` reads: int8 rows, or the float rows themselves."""
    if weight.format.unpack is not None:
        return _quantize(plan, x)
    if weight.format.name not in FLOAT_FORMATS:
        raise BackendError(
            f"{weight.name}: the cpu backend has no product for {weight.format.name}"
        )
    return plan.buffers[x]


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


def _unary(attribute: str) -> Callable[[Plan, OpCall], None]:
    def lower(plan: Plan, call: OpCall) -> None:
        x, factor = call.inputs[0], float_word(_number(call, attribute))
        words = count_word(x), plan.of(x), plan.new(_output(call)), stride(x)
        plan.emit((call.op,), *words, factor)

    return lower


def _gated(plan: Plan, call: OpCall) -> None:
    """Writes its result as float32, as int8, or both, as readers want it."""
    (gate, up), out = call.inputs, _output(call)
    is_int8 = plan.wants_int8(out)
    plan.emit(
        ("gated", str(call.attributes["activation"])),
        count_word(gate), plan.of(gate), plan.of(up),
        plan.new(out) if plan.wants_float(out) else 0, stride(gate),
        float_word(_number(call, "alpha")), float_word(_number(call, "limit")),
        plan.new_int8(out) if is_int8 else 0, layout.activation_row_bytes(out.width), out.width,
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
        table.width // 2, heads, x.width // heads, partition=_by_rows(x, heads),
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
        partition=_by_rows(k, keys.shape[1]), stores=(plan.caches[_integer(call, "layer")],),
    )  # fmt: skip


def _attention(plan: Plan, call: OpCall) -> None:
    """Also makes the int8 form of its result where heads are whole blocks of it."""
    q, out = call.inputs[0], _output(call)
    keys, values = _cache(plan, call)
    heads, kv_heads = _integer(call, "num_heads"), _integer(call, "num_kv_heads")
    if keys.shape[3] > layout.MAX_HEAD_DIM:
        most = layout.MAX_HEAD_DIM
        raise BackendError(f"heads of {keys.shape[3]} numbers: the cpu backend has at most {most}")
    sinks = plan.vector(call.weights[0]) if call.weights else 0
    is_int8 = plan.wants_int8(out) and keys.shape[3] % layout.ACTIVATION_BLOCK == 0
    plan.emit(
        ("attention", _cache_type(keys), _cache_type(values)),
        plan.of(q), stride(q), plan.new(out), stride(out), keys.ctypes.data, values.ctypes.data,
        _integer(call, "group"), heads, kv_heads, keys.shape[3],
        float_word(_number(call, "scale")), int(call.attributes.get("window", 0)),
        float_word(float(call.attributes.get("softcap", 0.0))), sinks,
        plan.new_int8(out) if is_int8 else 0, layout.activation_row_bytes(out.width),
        loads=(plan.caches[_integer(call, "layer")],),
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


def lower(program: Program, kv: KVStorage) -> Plan:
    """Kernel calls for a program; BackendError names an op that there is no kernel for."""
    result = Plan(program, kv)
    for call in program.calls:
        emit = LOWERINGS.get(call.op)
        if emit is None:
            raise BackendError(f"the cpu backend has no kernel for the op {call.op!r}")
        emit(result, call)
    return result
