"""Sizes and constants of a model, read from a file's metadata and checked. Knows no tensors."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGUFFile
from edgellm.models.registry import Architecture, architecture
from edgellm.models.rope import RopeScaling, ScalingKind

MAX_LAYERS = 1024
MAX_WIDTH = 1 << 20
MAX_CONTEXT = 1 << 30
MAX_EXPERTS = 4096
SCALING_KINDS: Mapping[str, ScalingKind] = {
    "none": "none",
    "linear": "linear",
    "yarn": "yarn",
    "longrope": "longrope",
}


@dataclass(frozen=True)
class ModelConfig:
    """One model's parameters. Tuples have one entry per layer. Lengths and widths in elements.

    windows: keys that a query of the layer sees, itself included; None is all of them.
    attention_scale: multiplies attention scores. final_softcap: None is no cap.
    num_experts: 0 for a dense model.
    """

    architecture: str
    num_layers: int
    hidden_size: int
    intermediate_size: tuple[int, ...]
    context_length: int
    num_heads: tuple[int, ...]
    num_kv_heads: tuple[int, ...]
    head_dim: int
    rotary_dim: int
    rope_base: float
    local_rope_base: float
    rope_scaling: RopeScaling
    norm_eps: float
    windows: tuple[int | None, ...]
    attention_scale: float | None
    final_softcap: float | None
    num_experts: int
    num_experts_used: int
    expert_intermediate_size: int


@dataclass(frozen=True)
class _Keys:
    """The metadata of one architecture, with a range for every value."""

    file: GGUFFile
    prefix: str

    def _name(self, key: str) -> str:
        return f"{self.prefix}.{key}"

    def _refuse(self, key: str, found: object, expected: str) -> GGUFError:
        return GGUFError(f"{self._name(key)} is {found}, expected {expected}")

    def _missing(self, key: str) -> GGUFError:
        return GGUFError(f"{self._name(key)} is missing: the file does not describe its model")

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """low <= value <= high; the key may be absent only when there is a default."""
        value = self.file.integer(self._name(key))
        if value is None:
            value = default
        if value is None:
            raise self._missing(key)
        if not low <= value <= high:
            raise self._refuse(key, value, f"{low} to {high}")
        return value

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """Like integer, for finite real numbers."""
        value = self.file.number(self._name(key))
        if value is None:
            value = default
        if value is None:
            raise self._missing(key)
        if not low <= value <= high:  # also refuses what is not a number
            raise self._refuse(key, value, f"{low:g} to {high:g}")
        return value

    def is_array(self, key: str) -> bool:
        """Whether the value is a list: one entry per layer."""
        value = self.file.metadata.get(self._name(key))
        return value is not None and not isinstance(value, (bool, int, float, str))

    def per_layer(
        self, key: str, num_layers: int, low: int, high: int, default: tuple[int, ...] | None = None
    ) -> tuple[int, ...]:
        """One number for all layers, or a list with one for each."""
        if default is not None and self._name(key) not in self.file.metadata:
            return default
        if not self.is_array(key):
            return (self.integer(key, low, high),) * num_layers
        values = self.file.metadata[self._name(key)]
        if not (isinstance(values, np.ndarray) and values.dtype.kind in "iub"):
            raise self._refuse(key, "a list of something else", "whole numbers")
        if len(values) != num_layers:
            raise self._refuse(key, f"a list of {len(values)}", f"one for each of {num_layers}")
        for value in values.tolist():
            if not low <= value <= high:
                raise self._refuse(key, f"{value} in one layer", f"{low} to {high}")
        return tuple(int(value) for value in values)


def read_config(file: GGUFFile) -> ModelConfig:
    """The configuration of the model in `file`.

    GGUFError names a key that is missing, of the wrong type or outside its range, and an
    architecture that is not in the registry.
    """
    name = file.string("general.architecture")
    if name is None:
        raise GGUFError("general.architecture is missing: the file does not say what model it is")
    row = architecture(name)
    keys = _Keys(file, name)
    num_layers = keys.integer("block_count", 1, MAX_LAYERS)
    hidden_size = keys.integer("embedding_length", 1, MAX_WIDTH)
    context_length = keys.integer("context_length", 1, MAX_CONTEXT)
    num_heads = keys.per_layer("attention.head_count", num_layers, 1, MAX_WIDTH)
    num_kv_heads = keys.per_layer(
        "attention.head_count_kv", num_layers, 1, MAX_WIDTH, default=num_heads
    )
    for heads, kv_heads in zip(num_heads, num_kv_heads, strict=True):
        if heads % kv_heads:
            raise keys._refuse("attention.head_count", heads, f"a multiple of {kv_heads} KV heads")
    head_dim = keys.integer(
        "attention.key_length", 1, MAX_WIDTH, default=max(1, hidden_size // num_heads[0])
    )
    keys.integer("attention.value_length", head_dim, head_dim, default=head_dim)
    rotary_dim = keys.integer("rope.dimension_count", 2, head_dim, default=head_dim)
    if rotary_dim % 2:
        raise keys._refuse("rope.dimension_count", rotary_dim, "an even number")
    num_experts = keys.integer("expert_count", 0, MAX_EXPERTS, default=0)
    intermediate_size = keys.per_layer("feed_forward_length", num_layers, 1, MAX_WIDTH)
    rope_base = keys.number("rope.freq_base", 1.0001, 1e12, default=10000.0)
    softcap = keys.number("final_logit_softcapping", 0, 1e6, default=0.0)
    return ModelConfig(
        architecture=name,
        num_layers=num_layers,
        hidden_size=hidden_size,
        intermediate_size=intermediate_size,
        context_length=context_length,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        rotary_dim=rotary_dim,
        rope_base=rope_base,
        local_rope_base=keys.number(
            "rope.freq_base_swa", 1.0001, 1e12, default=row.local_rope_base or rope_base
        ),
        rope_scaling=_rope_scaling(keys, row, context_length),
        norm_eps=keys.number("attention.layer_norm_rms_epsilon", 0, 1),
        windows=_windows(keys, row, num_layers),
        attention_scale=keys.number("attention.scale", 0, 1e6, default=0.0) or None,
        final_softcap=softcap or None if row.final_softcap else None,
        num_experts=num_experts,
        num_experts_used=keys.integer("expert_used_count", min(num_experts, 1), num_experts, 0),
        expert_intermediate_size=keys.integer("expert_feed_forward_length", 0, MAX_WIDTH, default=0)
        or intermediate_size[0],
    )


def _rope_scaling(keys: _Keys, row: Architecture, context_length: int) -> RopeScaling:
    kind = keys.file.string(f"{keys.prefix}.rope.scaling.type") or "linear"
    if kind not in SCALING_KINDS:
        raise keys._refuse("rope.scaling.type", repr(kind), " or ".join(SCALING_KINDS))
    default = keys.number("rope.scale_linear", 0, 1e6, default=1.0)
    return RopeScaling(
        kind=SCALING_KINDS[kind],
        factor=keys.number("rope.scaling.factor", 0, 1e6, default=default) or 1.0,
        original_context=keys.integer(
            "rope.scaling.original_context_length", 1, MAX_CONTEXT, default=context_length
        ),
        attention_factor=keys.number("rope.scaling.attn_factor", 0, 1e3, default=1.0) or 1.0,
        beta_fast=keys.number("rope.scaling.yarn_beta_fast", 1e-3, 1e6, default=32.0),
        beta_slow=keys.number("rope.scaling.yarn_beta_slow", 1e-3, 1e6, default=1.0),
        truncate=row.yarn_truncate,
    )


def _windows(keys: _Keys, row: Architecture, num_layers: int) -> tuple[int | None, ...]:
    """Per layer; the file's pattern, a list of yes and no or a period, goes before the row's."""
    window = keys.integer("attention.sliding_window", 0, MAX_CONTEXT, default=0)
    pattern = "attention.sliding_window_pattern"
    if keys.is_array(pattern):
        windowed = [bool(yes) for yes in keys.per_layer(pattern, num_layers, 0, 1)]
    else:
        period = keys.integer(pattern, 1, MAX_LAYERS, default=row.window_period)
        windowed = [layer % period < period - 1 for layer in range(num_layers)]
    return tuple(window if yes and window else None for yes in windowed)
