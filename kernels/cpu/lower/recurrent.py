"""Lowerings of convolutions and recurrences."""

from collections.abc import Mapping

from edgellm.kernels.cpu.lower.common import Lowering, integer, output, stride
from edgellm.kernels.cpu.plan import Plan, Word, floats
from edgellm.kernels.program import OpCall, Value


def _state(plan: Plan, call: OpCall) -> tuple[int, int]:
    """Words: where the states lie, and bytes of a slot."""
    storage = plan.kv.states[integer(call, "state")]
    return storage.ctypes.data, storage.strides[0]


def _rows(plan: Plan, *values: Value) -> list[Word]:
    """Words: each value and its stride."""
    return [word for value in values for word in (plan.of(value), stride(value))]


def _short_convolution(plan: Plan, call: OpCall) -> None:
    x, weight, out = call.inputs[0], call.weights[0], output(call)
    bias = plan.vector(call.weights[1]) if len(call.weights) > 1 else 0
    plan.emit(
        ("short_convolution", "silu" if call.attributes["silu"] else "plain"),
        *_rows(plan, x), plan.new(out), stride(out), *_state(plan, call),
        plan.matrix(floats(weight).T), bias, weight.columns,
    )  # fmt: skip


def _selective_scan(plan: Plan, call: OpCall) -> None:
    (x, _, b, _), (a, d), out = call.inputs, call.weights, output(call)
    groups = integer(call, "groups")
    plan.emit(
        ("selective_scan", "by_head" if a.columns == 1 else "by_element"),
        *_rows(plan, *call.inputs), plan.new(out), stride(out), *_state(plan, call),
        plan.vector(a) if a.columns == 1 else plan.matrix(floats(a)), plan.vector(d),
        a.rows, x.width // a.rows, groups, b.width // groups,
    )  # fmt: skip


def _delta_rule(plan: Plan, call: OpCall) -> None:
    (_, k, v, dt, beta), out = call.inputs, output(call)
    heads, key_heads = beta.width, integer(call, "key_heads")
    plan.emit(
        ("delta_rule", str(call.attributes["order"]), "by_head" if dt.width == heads else "by_key"),
        *_rows(plan, *call.inputs), plan.new(out), stride(out), *_state(plan, call),
        plan.vector(call.weights[0]), heads, key_heads, k.width // key_heads, v.width // heads,
    )  # fmt: skip


def _linear_attention(plan: Plan, call: OpCall) -> None:
    out, heads = output(call), integer(call, "heads")
    bonus = plan.vector(call.weights[0]) if call.weights else 0
    words = *_rows(plan, *call.inputs), plan.new(out), stride(out), *_state(plan, call)
    kind = "with_bonus" if call.weights else "plain"
    plan.emit(("linear_attention", kind), *words, heads, out.width // heads, bonus)


def _wkv7(plan: Plan, call: OpCall) -> None:
    out, heads = output(call), integer(call, "heads")
    words = *_rows(plan, *call.inputs), plan.new(out), stride(out), *_state(plan, call)
    plan.emit(("wkv7",), *words, heads, out.width // heads)


LOWERINGS: Mapping[str, Lowering] = {
    "short_convolution": _short_convolution,
    "selective_scan": _selective_scan,
    "delta_rule": _delta_rule,
    "linear_attention": _linear_attention,
    "wkv7": _wkv7,
}
