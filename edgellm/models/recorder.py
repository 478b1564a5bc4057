"""What a block of any model needs while it is recorded. Knows nothing of particular blocks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgellm.errors import GGUFError
from edgellm.kernels.formats import by_name
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Value, Weight
from edgellm.models.adapters import Adapter
from edgellm.models.adapting import Adapting
from edgellm.models.architecture import Architecture
from edgellm.models.config import ModelConfig
from edgellm.models.rope import Frequencies, inverse_frequencies
from edgellm.models.weights import Weights, part_of, rows_of


@dataclass
class Recorder:
    """A builder with the model's weights and constants. Tensors go by GGUF names without suffix.

    context_length: tokens that a sequence may grow to here; longrope chooses by it.
    """

    config: ModelConfig
    architecture: Architecture
    weights: Weights
    context_length: int
    adapters: tuple[Adapter, ...] = ()
    builder: Builder = field(default_factory=Builder)
    kv_layers: dict[int, int] = field(default_factory=dict)  # layer -> Builder.kv_layers
    per_layer_inputs: Value | None = None
    first_value: Value | None = None  # of the first layer, for those after it
    layer_input: Value | None = None  # the residual stream before the layer that is recorded
    attended: Value | None = None  # and behind what its first block adds
    _rope_tables: dict[bool, Value] = field(default_factory=dict)

    adapting: Adapting = field(init=False)

    def __post_init__(self) -> None:
        self.adapting = Adapting(self.builder, self.adapters)
        self.builder.num_adapters = len(self.adapters)

    def has(self, name: str) -> bool:
        """Whether the file holds `name`.weight."""
        return self.weights.has(f"{name}.weight")

    def offers(self, name: str, kind: str = "") -> bool:
        """Whether the file holds `name`.weight, which all layers of the kind then have."""
        return self.weights.offers(f"{name}.weight", kind)

    def linear(self, x: Value, name: str, width: int) -> Value:
        """The projection `name` to `width`, with its scale and bias where the file has them."""
        (y,) = self.fused_linear(x, name, (width,))
        return y

    def precise_linear(self, x: Value, name: str, width: int) -> Value:
        """As linear, but nothing of x is lost where a backend rounds it. Takes twice the time."""
        y = self.linear(x, name, width)
        weight = self.weights.matrix(f"{name}.weight", width, x.width)
        if weight.format.unpack is None:  # no backend rounds for float weights
            return y
        scale = self.weights.optional_vector(f"{name}.scale", 1)
        rest = self.builder.matmul(self.builder.remainder(x), weight, scale=scale)
        return self.builder.add(y, rest)

    def fused_linear(self, x: Value, name: str, widths: Sequence[int]) -> Iterator[Value]:
        """Projections that lie in one matrix, one after another, each a product of its own."""
        total = sum(widths)
        weight = self.weights.matrix(f"{name}.weight", total, x.width)
        bias = self.weights.optional_vector(f"{name}.bias", total)
        scale = self.weights.optional_vector(f"{name}.scale", 1)
        first = 0
        for width in widths:
            y = self.builder.matmul(
                x,
                weight if width == total else rows_of(weight, first, width),
                bias=None if bias is None else part_of(bias, first, width),
                scale=scale,
            )
            yield self.adapting.product(y, x, weight.name, total, first)
            first += width

    def norm(self, x: Value, name: str, eps: float | None = None) -> Value:
        """The architecture's norm over whole rows, with the weights `name`. eps: the file's, unless
        given.
        """
        if self.config.norm == "plain_layer":
            return self.builder.layer_norm(x, None, None, self.config.norm_eps)
        if self.config.norm == "plain_rms":
            return self.builder.rms_norm(x, None, self.config.norm_eps)
        weight = self.weights.vector(f"{name}.weight", x.width)
        bias = self.weights.optional_vector(f"{name}.bias", x.width)
        return self._norm(x, weight, bias, 1, eps)

    def optional_norm(self, x: Value, name: str) -> Value:
        """The norm where the file has its weight, else x itself."""
        return self.norm(x, name) if self.offers(name) else x

    def head_norm(self, x: Value, name: str, heads: int) -> Value:
        """A norm of queries or keys.

        The weight's shape says over what: one head, the same for all; each head, its own (a
        matrix); or the whole row.
        """
        width = x.width // heads
        shape = self.weights.shape(f"{name}.weight") if self.has(name) else ()
        if shape == (x.width,) and heads > 1:
            return self.norm(x, name)
        rows = heads if len(shape) > 1 else 1
        weight = self.weights.matrix_float32(f"{name}.weight", rows, width)
        bias = None
        if self.weights.offers(f"{name}.bias"):
            bias = self.weights.matrix_float32(f"{name}.bias", rows, width)
        return self._norm(x, weight, bias, heads)

    def _norm(
        self,
        x: Value,
        weight: Weight | None,
        bias: Weight | None,
        heads: int,
        eps: float | None = None,
    ) -> Value:
        eps = self.config.norm_eps if eps is None else eps
        if self.config.norm == "rms":
            y = self.builder.rms_norm(x, weight, eps, heads)
            if bias is None:
                return y
            if bias.columns != x.width:
                raise GGUFError(f"tensor {bias.name} has no place in a norm of heads")
            return self.builder.add_columns(y, bias)
        return self.builder.layer_norm(x, weight, bias, eps, heads)

    def rope_table(self, layer: int) -> Value:
        """Cosines and sines for a layer; recorded once for all layers that share them."""
        windowed = self.config.windows[layer] is not None
        row, config = self.architecture, self.config
        is_own = row.local_rope_scaled and config.local_rope_base != config.rope_base
        local = windowed and (row.local_rope or is_own)
        if local not in self._rope_tables:
            base = config.local_rope_base if local else config.rope_base
            is_plain = local and not row.local_rope_scaled
            self._rope_tables[local] = self._local_rope() if is_plain else self._rope(base)
        return self._rope_tables[local]

    def _local_rope(self) -> Value:
        config = self.config
        return self.builder.rope_table(
            vector(
                "rope.local", inverse_frequencies(config.local_rotary_dim, config.local_rope_base)
            )
        )

    def _rope(self, base: float) -> Value:
        config = self.config
        frequencies = inverse_frequencies(
            config.rotary_dim,
            base,
            config.rope_scaling,
            self._rope_divisors(),
            self.context_length,
        )
        return self.builder.rope_table(
            vector("rope", frequencies), magnitude=config.rope_scaling.magnitude
        )

    def _rope_divisors(self) -> Frequencies | None:
        is_long = self.context_length > self.config.rope_scaling.original_context
        pairs = self.config.rotary_dim // 2
        stored = pairs
        if self.architecture.rotary_divisor > 1:  # files have those of the layers that rotate most
            stored = max(pairs, self.config.local_rotary_dim // 2)
        chosen = None
        for name, wanted in (
            ("rope_freqs.weight", True),
            ("rope_factors_long.weight", is_long),
            ("rope_factors_short.weight", not is_long),
        ):
            found = self.weights.optional_vector(name, stored)
            if found is not None and wanted:
                chosen = found
        if chosen is None:
            return None
        divisors: Frequencies = chosen.data.view(np.float32)[0, :pairs]
        if not (np.isfinite(divisors).all() and (divisors > 0).all()):
            raise GGUFError(f"tensor {chosen.name} holds numbers that are not finite and positive")
        return divisors


def vector(name: str, values: Frequencies) -> Weight:
    """Numbers reckoned from a configuration, as a weight."""
    row = np.ascontiguousarray(values, np.float32)[None]
    return Weight(name, by_name("F32").type_id, 1, len(values), row.view(np.uint8))
