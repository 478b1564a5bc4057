"""Ops on each row alone: lookups, norms, products, activations, choice of rows."""

import math
from typing import Literal

from edgellm.kernels.ops.base import Recording
from edgellm.kernels.program import Value, Weight

# Of one number, alone or as a gate.
UnaryActivation = Literal[
    "silu", "gelu", "gelu_tanh", "gelu_quick", "relu", "relu2", "sigmoid", "gompertz"
]
Activation = UnaryActivation | Literal["swiglu_clamped", "bilinear"]


class RowOps(Recording):
    """Each method returns the Value that its op writes."""

    def embed(self, table: Weight, scale: float = 1.0) -> Value:
        """Row input_ids[t] of `table`, dequantised, times `scale`."""
        return self.value("embed", weights=(table,), width=table.columns, scale=scale)

    def embed_positions(self, table: Weight) -> Value:
        """Row positions[t] of `table`, dequantised: learned positions, one row for each."""
        return self.value("embed_positions", weights=(table,), width=table.columns, scale=1.0)

    def layer_norm(
        self, x: Value, weight: Weight | None, bias: Weight | None, eps: float, heads: int = 1
    ) -> Value:
        """(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias over `heads` parts of a row.

        weight, bias: as for rms_norm; no bias is 0. Source: Ba et al. 2016.
        """
        return self.value(
            "layer_norm",
            (x,),
            (weight, bias),
            width=x.width,
            rows=x.rows,
            eps=eps,
            heads=heads,
            weight=int(weight is not None),
            bias=int(bias is not None),
        )

    def rms_norm(self, x: Value, weight: Weight | None, eps: float, heads: int = 1) -> Value:
        """x / sqrt(mean(x^2) + eps) * weight over each of `heads` equal parts of a row.

        weight: a float vector of width / heads, the same for each part, or a matrix with a row for
        each; None is all ones.
        Source: Zhang and Sennrich 2019.
        """
        return self.value(
            "rms_norm", (x,), (weight,), width=x.width, rows=x.rows, eps=eps, heads=heads
        )

    def columns(self, x: Value, first: int, width: int, parts: int = 1) -> Value:
        """Columns first to first + width of each of `parts` equal parts of a row, side by side."""
        if not 0 <= first <= first + width <= x.width // parts:
            raise ValueError(f"columns {first} to {first + width} of {x.width // parts}")
        return self.value(
            "columns", (x,), width=parts * width, rows=x.rows, first=first, parts=parts
        )

    def matmul(
        self, x: Value, weight: Weight, bias: Weight | None = None, scale: Weight | None = None
    ) -> Value:
        """y[t, n] = scale * sum_k x[t, k] * weight[n, k] + bias[n]; scale has one element."""
        if x.width != weight.columns:
            raise ValueError(f"{weight.name}: {weight.columns} columns for rows of {x.width}")
        return self.value(
            "matmul",
            (x,),
            (weight, bias, scale),
            width=weight.rows,
            rows=x.rows,
            bias=int(bias is not None),
            scale=int(scale is not None),
        )

    def remainder(self, x: Value) -> Value:
        """What products with block weights do not see of x, whose rows become int8 for them: the
        sum of the products of x and of its remainder is as good as with floats. 0 in a backend that
        multiplies floats.
        """
        return self.value("remainder", (x,), width=x.width, rows=x.rows)

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        return self.value("add", (a, b), width=a.width, rows=a.rows)

    def multiply(self, a: Value, factor: float) -> Value:
        """a * factor."""
        return self.value("multiply", (a,), width=a.width, rows=a.rows, factor=factor)

    def multiply_columns(self, x: Value, factors: Weight) -> Value:
        """x[t, n] * factors[n]; factors: float vector of the width."""
        return self.value("multiply_columns", (x,), (factors,), width=x.width, rows=x.rows)

    def add_columns(self, x: Value, terms: Weight) -> Value:
        """x[t, n] + terms[n]; terms: float vector of the width."""
        return self.value("add_columns", (x,), (terms,), width=x.width, rows=x.rows)

    def clamp(self, x: Value, limit: float) -> Value:
        """x brought into -limit..limit."""
        return self.value("clamp", (x,), width=x.width, rows=x.rows, limit=limit)

    def activate(self, x: Value, activation: UnaryActivation) -> Value:
        """activation(x).

        "silu" is x sigmoid(x); "gelu" x times the normal distribution's integral up to x,
        "gelu_tanh" and "gelu_quick" (x sigmoid(1.702 x)) come near it; "relu" max(x, 0); "relu2"
        its square; "gompertz" exp(-e^x).
        Sources: Hendrycks and Gimpel 2016; So et al. 2021 (relu2).
        """
        return self.value("activate", (x,), width=x.width, rows=x.rows, activation=activation)

    def gaussian_top_k(self, x: Value, deviations: float) -> Value:
        """max(x - mean - deviations * standard deviation, 0), both of the row.

        Of normally distributed numbers it keeps the share that lies so many deviations above the
        mean. Source: Gemma 3n (Google 2025).
        """
        return self.value("gaussian_top_k", (x,), width=x.width, rows=x.rows, deviations=deviations)

    def xielu(self, x: Value, alpha_p: float, alpha_n: float, beta: float) -> Value:
        """alpha_p x^2 + beta x above 0, alpha_n (e^x - 1 - x) + beta x below.

        Source: Huang and Schlag 2024.
        """
        return self.value(
            "xielu",
            (x,),
            width=x.width,
            rows=x.rows,
            alpha_p=alpha_p,
            alpha_n=alpha_n,
            beta=beta,
        )

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
        "bilinear" is gate * up.
        """
        return self.value(
            "gated",
            (gate, up),
            width=gate.width,
            rows=gate.rows,
            activation=activation,
            alpha=alpha,
            limit=limit,
        )

    def softplus(self, x: Value, bias: Weight | None = None) -> Value:
        """log(1 + e^(x + bias)); bias: float vector of width."""
        return self.value("softplus", (x,), (bias,), width=x.width, rows=x.rows)

    def softcap(self, x: Value, cap: float) -> Value:
        """cap * tanh(x / cap)."""
        return self.value("softcap", (x,), width=x.width, rows=x.rows, cap=cap)

    def select_outputs(self, x: Value) -> Value:
        """The rows named by the batch's logits_rows."""
        return self.value("select_outputs", (x,), width=x.width, rows="outputs")
