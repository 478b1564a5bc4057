"""Sizes and constants of a model as data. Knows no files and no tensors."""

from dataclasses import dataclass

from edgellm.kernels.ops import Activation
from edgellm.models.activation_config import XIELU
from edgellm.models.altup_config import AltUpConfig
from edgellm.models.architecture import NormKind
from edgellm.models.cycles_config import CyclesConfig
from edgellm.models.expert_config import ExpertConfig
from edgellm.models.latent_config import LatentConfig
from edgellm.models.recurrent_config import RecurrentConfig
from edgellm.models.rope import RopeScaling
from edgellm.types import Pooling


@dataclass(frozen=True)
class ModelConfig:
    """One model's parameters. Tuples have one entry per layer; lengths and widths in elements.

    Scales are the file's own; the row of the architecture says what they do. `local_...` is of
    layers with a window. None: the model has none.
    """

    architecture: str
    num_layers: int
    # How often all layers run, one after another, and whether with the last norm in between.
    loops: int
    norms_loops: bool
    hidden_size: int
    intermediate_size: tuple[int, ...]
    context_length: int
    # Tokens see only what comes before them; those of an encoder beside a decoder see all.
    causal: bool
    # How the file makes one row of a text's; None where it does not say.
    pooling: Pooling | None

    num_heads: tuple[int, ...]
    num_kv_heads: tuple[int, ...]
    head_dim: int
    local_head_dim: int
    value_dim: int
    local_value_dim: int
    # Keys that a query sees, itself included; None is all of them. In a model that is not causal
    # half of it lies after the query.
    windows: tuple[int | None, ...]
    # So many layers at the end use keys and values of earlier ones.
    shared_kv_layers: int

    rotary_dim: int
    local_rotary_dim: int
    rope_base: float
    local_rope_base: float
    rope_scaling: RopeScaling
    # Whether the file says so; whether it divides rotary dimensions among text and images.
    rope_finetuned: bool | None
    rope_sections: bool
    # Whether the file says of a layer that it rotates, where the row asks for that.
    rotating: tuple[bool, ...]
    # Likewise those with linear attention, in models whose blocks add to normed inputs.
    linear_layers: tuple[bool, ...]

    norm: NormKind  # never "by_key"
    norm_eps: float
    attention_scale: float | None  # multiplies scores
    attention_softcap: float | None
    value_scale: float | None  # multiplies what attention adds
    # Queries beyond so many tokens grow with that scale (Builder.position_scale).
    temperature_scale: float | None
    temperature_length: int
    max_alibi_bias: float  # see Builder.attention, 0 is none
    relative_buckets: int  # ranges of distance that have a bias each
    clamp_qkv: float | None  # the largest magnitude of queries, keys and values
    parallel_residual: bool
    embedding_scale: float | None
    residual_scale: float | None
    logit_scale: float | None
    final_softcap: float | None

    # What a token brings to each layer, 0 is nothing.
    per_layer_input_width: int
    # So many at the start have no experts, as the file says.
    leading_dense_layers: int
    activation: Activation  # of feed-forward blocks
    xielu: tuple[XIELU, ...]  # empty without that one
    # What Builder.gaussian_top_k takes, None leaves gates alone.
    gate_deviations: tuple[float | None, ...]
    altup: AltUpConfig | None
    cycles: CyclesConfig | None
    recurrent: RecurrentConfig
    latent: LatentConfig | None
    local_latent: LatentConfig | None
    experts: ExpertConfig | None

    def head_dim_of(self, layer: int) -> int:
        """The width of the layer's queries and keys."""
        return self.head_dim if self.windows[layer] is None else self.local_head_dim

    def latent_of(self, layer: int) -> LatentConfig | None:
        """How the layer makes latents of its keys and values."""
        return self.latent if self.windows[layer] is None else self.local_latent

    def value_dim_of(self, layer: int) -> int:
        """The width of the layer's values."""
        return self.value_dim if self.windows[layer] is None else self.local_value_dim
