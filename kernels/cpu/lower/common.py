"""What lowerings share: strides, words, operands of products, attributes of a call."""

import struct
from collections.abc import Callable

from edgellm.errors import BackendError
from edgellm.kernels.cpu import layout
from edgellm.kernels.cpu.objects import KernelKey
from edgellm.kernels.cpu.plan import Buffer, Partition, Plan
from edgellm.kernels.program import OpCall, Value, Weight

Lowering = Callable[[Plan, OpCall], None]

FLOAT_FORMATS = ("F32", "F16", "BF16")  # weights that are multiplied as they are


def stride(value: Value) -> int:
    """Floats from one row to the next."""
    return layout.padded(value.width)


def count_word(value: Value) -> int:
    """Index of the step word that says how many rows a value has."""
    return layout.NUM_TOKENS if value.rows == "tokens" else layout.NUM_OUTPUTS


def by_rows(value: Value, heads: int = 1) -> Partition:
    """Kernels that share out the heads of rows."""
    return count_word(value), heads


def float_word(value: float) -> int:
    """A float32's bits as an integer."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def address(weight: Weight) -> int:
    """Where the weight lies."""
    return int(weight.data.ctypes.data)


def quantize(plan: Plan, x: Value) -> Buffer:
    """The int8 form of a value; made here when whoever wrote it could not."""
    if x not in plan.quantized:
        words = count_word(x), plan.of(x), stride(x), plan.new_int8(x)
        plan.emit(("quantize",), *words, layout.activation_row_bytes(x.width), x.width)
    return plan.quantized[x]


def product_operand(plan: Plan, x: Value, weight: Weight) -> Buffer:
    """What a product with `weight` reads: int8 rows, or the float rows themselves."""
    if weight.format.unpack is not None:
        return quantize(plan, x)
    if weight.format.name not in FLOAT_FORMATS:
        raise BackendError(
            f"{weight.name}: the cpu backend has no product for {weight.format.name}"
        )
    return plan.buffers[x]


def product_kernel(base: str, weight: Weight) -> KernelKey:
    return (base if weight.format.unpack else base.replace("matmul", "float_matmul"), *_id(weight))


def _id(weight: Weight) -> tuple[str]:
    return (str(weight.type_id),)


def bias_and_scale(plan: Plan, call: OpCall) -> tuple[int, int]:
    extra = iter(call.weights[1:])
    bias = plan.vector(next(extra)) if call.attributes["bias"] else 0
    scale = plan.vector(next(extra)) if call.attributes["scale"] else 0
    return bias, scale


def output(call: OpCall) -> Value:
    assert call.output is not None
    return call.output


def number(call: OpCall, name: str) -> float:
    return float(call.attributes[name])


def integer(call: OpCall, name: str) -> int:
    return int(call.attributes[name])
