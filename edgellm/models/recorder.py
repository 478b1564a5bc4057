"""What a block of any model needs while it is recorded. Knows nothing of particular blocks."""

from dataclasses import dataclass, field

import numpy as np

from edgellm.errors import GGUFError
from edgellm.kernels.formats import by_name
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Value, Weight
from edgellm.models.config import ModelConfig
from edgellm.models.registry import Architecture
from edgellm.models.rope import Frequencies, inverse_frequencies
from edgellm.models.weights import Weights


@dataclass
class Recorder:
    """A builder with the model's weights and constants. Tensors go by GGUF names without suffix.

    context_length: tokens that a sequence may grow to here; longrope chooses by it.
    """

    config: ModelConfig
    architecture: Architecture
    weights: Weights
    context_length: int
    builder: Builder = field(default_factory=Builder)
    _rope_tables: dict[bool, Value] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether the file holds `name`.weight."""
        return self.weights.has(f"{name}.weight")

    def linear(self, x: Value, name: str, width: int) -> Value:
        """The projection `name` to `width`, with its scale and bias where the file has them."""
        return self.builder.matmul(
            x,
            self.weights.matrix(f"{name}.weight", width, x.width),
            bias=self.weights.optional_vector(f"{name}.bias", width),
            scale=self.weights.optional_vector(f"{name}.scale", 1),
        )

    def norm(self, x: Value, name: str, heads: int = 1) -> Value:
        """RMS norm with the weight `name` over each of `heads` parts of a row."""
        weight = self.weights.vector(f"{name}.weight", x.width // heads)
        return self.builder.rms_norm(x, weight, self.config.norm_eps, heads)

    def optional_norm(self, x: Value, name: str, heads: int = 1) -> Value:
        """The norm where the file has its weight, else x itself."""
        return self.norm(x, name, heads) if self.has(name) else x

    def rope_table(self, layer: int) -> Value:
        """Cosines and sines for a layer; recorded once for all layers that share them."""
        windowed = self.config.windows[layer] is not None
        local = windowed and self.architecture.local_rope_base is not None
        if local not in self._rope_tables:
            self._rope_tables[local] = self._local_rope() if local else self._rope()
        return self._rope_tables[local]

    def _local_rope(self) -> Value:
        config = self.config
        return self.builder.rope_table(
            _vector("rope.local", inverse_frequencies(config.rotary_dim, config.local_rope_base))
        )

    def _rope(self) -> Value:
        config = self.config
        frequencies = inverse_frequencies(
            config.rotary_dim, config.rope_base, config.rope_scaling, self._rope_divisors()
        )
        return self.builder.rope_table(
            _vector("rope", frequencies), magnitude=config.rope_scaling.magnitude
        )

    def _rope_divisors(self) -> Frequencies | None:
        is_long = self.context_length > self.config.rope_scaling.original_context
        pairs = self.config.rotary_dim // 2
        chosen = None
        for name, wanted in (
            ("rope_freqs.weight", True),
            ("rope_factors_long.weight", is_long),
            ("rope_factors_short.weight", not is_long),
        ):
            vector = self.weights.optional_vector(name, pairs)
            if vector is not None and wanted:
                chosen = vector
        if chosen is None:
            return None
        divisors: Frequencies = chosen.data.view(np.float32)[0]
        if not (np.isfinite(divisors).all() and (divisors > 0).all()):
            raise GGUFError(f"tensor {chosen.name} holds numbers that are not finite and positive")
        return divisors


def _vector(name: str, values: Frequencies) -> Weight:
    row = np.ascontiguousarray(values, np.float32)[None]
    return Weight(name, by_name("F32").type_id, 1, len(values), row.view(np.uint8))
