"""The op vocabulary, and the Program that a model definition records.

A model definition calls the methods of a `Builder` as if they computed at once; each call appends
an `OpCall`. A backend later runs the recorded `Program` on any number of batches. Nothing here
knows of models, files or machines; weights arrive as byte arrays with a format.

Values are float32 matrices with one row per token of the batch ("tokens"), or one per wanted
logits row ("outputs"). A Value has one writer.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from edgellm.kernels.formats import Format, by_id

Rows = Literal["tokens", "outputs"]
RopeLayout = Literal["interleaved", "split"]  # pairs (2i, 2i+1), or (i, i + rotary_dim / 2)
Activation = Literal["silu", "gelu_tanh", "swiglu_clamped"]
Gating = Literal["softmax", "softmax_selected", "sigmoid"]

ATTENTION_TILE = 256  # keys per partial softmax, counted from position 0; part of the numerics


@dataclass(frozen=True)
class Value:
    """A float32 matrix (rows, width) that exists while a program runs."""

    index: int
    width: int
    rows: Rows = "tokens"


@dataclass(frozen=True, eq=False)
class Weight:
    """A matrix as stored: `rows` output features of `columns` weights in a block format.

    data: uint8 (rows, row_bytes), usually a view of a memory map. Vectors have one row.
    """

    name: str
    type_id: int
    rows: int
    columns: int
    data: npt.NDArray[np.uint8]

    @property
    def format(self) -> Format:
        return by_id(self.type_id)


@dataclass(frozen=True, eq=False)
class OpCall:
    """One op with its operands. `attributes` are numbers and names fixed at record time."""

    op: str
    inputs: tuple[Value, ...]
    weights: tuple[Weight, ...]
    output: Value | None
    attributes: Mapping[str, int | float | str]


@dataclass(frozen=True)
class KVGroup:
    """Layers that see the same part of the past and so share block tables.

    window: keys a query sees, itself included; None is all of them.
    """

    window: int | None
    layers: tuple[int, ...]


@dataclass(frozen=True)
class KVLayer:
    """Shape of one layer's cache. `group` indexes Program.kv_groups."""

    group: int
    num_kv_heads: int
    head_dim: int


@dataclass(frozen=True, eq=False)
class Program:
    """A recorded forward pass. `outputs` names values: logits (rows "outputs") is always there."""

    calls: tuple[OpCall, ...]
    outputs: Mapping[str, Value]
    kv_groups: tuple[KVGroup, ...]
    kv_layers: tuple[KVLayer, ...]
    vocab_size: int


@dataclass
class Builder:
    """Records ops. Methods return the Value that the op will write."""

    calls: list[OpCall] = field(default_factory=list)
    kv_layers: list[KVLayer] = field(default_factory=list)
    _windows: list[int | None] = field(default_factory=list)
    _count: int = 0

    def _new(self, width: int, rows: Rows) -> Value:
        value = Value(self._count, width, rows)
        self._count += 1
        return value

    def _record(
        self,
        op: str,
        inputs: tuple[Value, ...],
        weights: tuple[Weight | None, ...],
        output: Value | None,
        attributes: Mapping[str, int | float | str],
    ) -> None:
        kept = tuple(weight for weight in weights if weight is not None)
        self.calls.append(OpCall(op, inputs, kept, output, attributes))

    def _value(
        self,
        op: str,
        inputs: tuple[Value, ...] = (),
        weights: tuple[Weight | None, ...] = (),
        *,
        width: int,
        rows: Rows = "tokens",
        **attributes: int | float | str,
    ) -> Value:
        """Records an op that writes a new value."""
        output = self._new(width, rows)
        self._record(op, inputs, weights, output, attributes)
        return output

    def embed(self, table: Weight, scale: float = 1.0) -> Value:
        """Row input_ids[t] of `table`, dequantised, times `scale`."""
        return self._value("embed", weights=(table,), width=table.columns, scale=scale)

    def rms_norm(self, x: Value, weight: Weight | None, eps: float, heads: int = 1) -> Value:
        """x / sqrt(mean(x^2) + eps) * weight over each of `heads` equal parts of a row.

        weight: float vector of width / heads, the same for each part; None is all ones.
        Source: Zhang and Sennrich 2019.
        """
        return self._value(
            "rms_norm", (x,), (weight,), width=x.width, rows=x.rows, eps=eps, heads=heads
        )

    def matmul(
        self, x: Value, weight: Weight, bias: Weight | None = None, scale: Weight | None = None
    ) -> Value:
        """y[t, n] = scale * sum_k x[t, k] * weight[n, k] + bias[n]; scale has one element."""
        if x.width != weight.columns:
            raise ValueError(f"{weight.name}: {weight.columns} columns for rows of {x.width}")
        return self._value(
            "matmul",
            (x,),
            (weight, bias, scale),
            width=weight.rows,
            rows=x.rows,
            bias=int(bias is not None),
            scale=int(scale is not None),
        )

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        return self._value("add", (a, b), width=a.width, rows=a.rows)

    def multiply(self, a: Value, factor: float) -> Value:
        """a * factor."""
        return self._value("multiply", (a,), width=a.width, rows=a.rows, factor=factor)

    def gated(
        self,
        gate: Value,
        up: Value,
        activation: Activation,
        *,
        alpha: float = 1.0,
        limit: float = math.inf,
    ) -> Value:
        """activation(gate) * up. Source: Shazeer 2020, GLU variants.

        "swiglu_clamped" is g * sigmoid(alpha * g) * (u + 1) with g = min(gate, limit) and
        u = up clamped to -limit..limit (gpt-oss); the others leave alpha and limit alone.
        """
        return self._value(
            "gated",
            (gate, up),
            width=gate.width,
            rows=gate.rows,
            activation=activation,
            alpha=alpha,
            limit=limit,
        )

    def softcap(self, x: Value, cap: float) -> Value:
        """cap * tanh(x / cap)."""
        return self._value("softcap", (x,), width=x.width, rows=x.rows, cap=cap)

    def rope_table(self, inverse_frequencies: Weight, magnitude: float = 1.0) -> Value:
        """cos and sin of position * inverse frequency, each times `magnitude`.

        inverse_frequencies: float32 vector of rotary_dim / 2. Row layout: all cos, then all sin.
        """
        return self._value(
            "rope_table",
            weights=(inverse_frequencies,),
            width=2 * inverse_frequencies.columns,
            magnitude=magnitude,
        )

    def rope(self, x: Value, table: Value, heads: int, layout: RopeLayout) -> Value:
        """Rotates the first table.width dimensions of each head. Source: Su et al. 2021."""
        return self._value("rope", (x, table), width=x.width, heads=heads, layout=layout)

    def attention(
        self,
        q: Value,
        k: Value,
        v: Value,
        *,
        num_heads: int,
        num_kv_heads: int,
        scale: float,
        window: int | None = None,
        softcap: float | None = None,
        sinks: Weight | None = None,
    ) -> Value:
        """Appends k and v to the layer's cache, then softmax(scale * q k^T) v over the past.

        q (num_heads * head_dim), k and v (num_kv_heads * head_dim). Causal; with a window a query
        at position p sees keys p - window + 1 to p. Scores become softcap * tanh(s / softcap)
        first where that is given. sinks: float vector of num_heads, for each head the score of
        one more key whose value is zero; it is merged after the last tile. Keys and values are
        always read back from the cache, the current rows included; partial results are per
        ATTENTION_TILE keys, merged in order.
        """
        if window not in self._windows:
            self._windows.append(window)
        group = self._windows.index(window)
        layer = len(self.kv_layers)
        self.kv_layers.append(KVLayer(group, num_kv_heads, k.width // num_kv_heads))
        self._record("store_kv", (k, v), (), None, {"layer": layer, "group": group})
        attributes: dict[str, int | float | str] = {
            "layer": layer,
            "group": group,
            "num_heads": num_heads,
            "num_kv_heads": num_kv_heads,
            "scale": scale,
        }
        if window is not None:
            attributes["window"] = window
        if softcap is not None:
            attributes["softcap"] = softcap
        output = self._new(q.width, "tokens")
        self._record("attention", (q,), (sinks,), output, attributes)
        return output

    def moe_route(
        self,
        scores: Value,
        top_k: int,
        *,
        gating: Gating,
        normalize: bool = False,
        factor: float = 1.0,
        selection_bias: Weight | None = None,
    ) -> Value:
        """Chooses top_k experts per row. scores (T, experts) -> (T, 2 * top_k).

        The first top_k columns are expert numbers as floats, best first, the lower number first
        where two are equal; the others their weights. gating "softmax" and "sigmoid" turn all
        scores into probabilities, of which the largest top_k are taken; "softmax_selected" takes
        the largest scores and applies softmax to those alone. selection_bias (experts elements)
        is added for choosing only. normalize: weights are then divided by their sum. factor
        multiplies them last.
        """
        return self._value(
            "moe_route",
            (scores,),
            (selection_bias,),
            width=2 * top_k,
            top_k=top_k,
            gating=gating,
            normalize=int(normalize),
            factor=factor,
        )

    def moe_matmul(
        self,
        x: Value,
        routing: Value,
        weight: Weight,
        *,
        experts: int,
        bias: Weight | None = None,
        scale: Weight | None = None,
    ) -> Value:
        """For each rank r of a row's experts e: scale[e] * weight[e] x_r + bias[e].

        weight: the matrices of all experts one after another, (experts * n, columns); bias
        (experts, n); scale experts elements. x: (T, columns), the same row for every rank, or
        (T, top_k * columns), a part for each. routing: from moe_route. Output (T, top_k * n),
        ranks side by side.
        """
        top_k = routing.width // 2
        if x.width not in (weight.columns, top_k * weight.columns):
            raise ValueError(f"{weight.name}: {weight.columns} columns for rows of {x.width}")
        return self._value(
            "moe_matmul",
            (x, routing),
            (weight, bias, scale),
            width=top_k * (weight.rows // experts),
            experts=experts,
            bias=int(bias is not None),
            scale=int(scale is not None),
        )

    def moe_combine(self, x: Value, routing: Value) -> Value:
        """Sum of routing weight r times part r of a row, added in rank order from the first.

        x (T, top_k * n), routing from moe_route -> (T, n).
        """
        return self._value("moe_combine", (x, routing), width=2 * x.width // routing.width)

    def select_outputs(self, x: Value) -> Value:
        """The rows named by the batch's logits_rows."""
        return self._value("select_outputs", (x,), width=x.width, rows="outputs")

    def finish(self, **outputs: Value) -> Program:
        """The program; one of the outputs must be called logits."""
        groups = tuple(
            KVGroup(window, tuple(i for i, kv in enumerate(self.kv_layers) if kv.group == g))
            for g, window in enumerate(self._windows)
        )
        return Program(
            tuple(self.calls), outputs, groups, tuple(self.kv_layers), outputs["logits"].width
        )
