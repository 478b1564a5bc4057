"""What one row of the table of architectures can say. Knows no architecture by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from edgellm.kernels.ops import Activation, Gating, KeyHeads, RopeLayout, UnaryActivation

if TYPE_CHECKING:
    from edgellm.models.config import ModelConfig

# Root mean square; mean and variance, with the file's weight and bias; each of them without any;
# the first or the second, by the key that the file has for it.
NormKind = Literal["rms", "layer", "plain_rms", "plain_layer", "by_key"]
# Attention, then feed-forward; both from the same input; parallel where the file's key says so;
# parallel where a layer has one norm only; a single block for each layer; blocks read what came
# before as it is, and sums are normed; what blocks add to is normed as what they read.
Residual = Literal[
    "sequential", "parallel", "by_key", "by_norm", "single", "normed_sums", "normed_inputs"
]

# Outputs of a program: what follows its last norm, or what that reads.
MTPReads = Literal["hidden", "stream"]

Number = Callable[["ModelConfig"], float]


def embedding_scale(config: "ModelConfig") -> float:
    """The file's factor for embeddings, or none."""
    return config.embedding_scale or 1.0


def residual_scale(config: "ModelConfig") -> float:
    """The file's factor for what a block adds, or none."""
    return config.residual_scale or 1.0


def divided_by_logit_scale(config: "ModelConfig") -> float:
    """Granite's key says what logits are divided by."""
    return 1 / (config.logit_scale or 1.0)


def no_scale(config: "ModelConfig") -> float:
    """1."""
    return 1.0


def head_dim(config: "ModelConfig") -> float:
    """Scores are divided by the square root of the width of a head."""
    return config.head_dim


def max_alibi_bias(config: "ModelConfig") -> float:
    """The file's, or none."""
    return config.max_alibi_bias


def every_layer(config: "ModelConfig", layer: int) -> bool:
    """All layers rotate."""
    return True


def unless_switched_off(config: "ModelConfig", layer: int) -> bool:
    """Granite files say with `rope.scaling.finetuned` whether they rotate at all."""
    return config.rope_finetuned is not False


def by_pattern(config: "ModelConfig", layer: int) -> bool:
    """The file says of each layer whether it rotates."""
    return config.rotating[layer]


def never(config: "ModelConfig") -> bool:
    """No layer."""
    return False


@dataclass(frozen=True)
class PositionScale:
    """Queries grow with their position; see Builder.position_scale."""

    length: int
    factor: float
    offset: int


@dataclass(frozen=True)
class Architecture:
    """How one family differs from a plain pre-norm decoder with grouped-query attention.

    "Unless a key says so": the file's own value goes before the row's.
    """

    # Rotation.

    # Which dimensions form a pair; None: positions are learned or biases.
    rope: RopeLayout | None
    # A file with sections of rotary dimensions (for images) pairs "split".
    sections_split: bool = False
    # Which layers rotate queries and keys.
    rotates: Callable[["ModelConfig", int], bool] = every_layer
    # Layers with a window rotate without scaling, by a base of their own: this one unless a key
    # says another; None is the base of all.
    local_rope: bool = False
    local_rope_base: float | None = None
    # They are scaled as all are, by the base that a key gives them.
    local_rope_scaled: bool = False
    # Layers without a window rotate so many times less dimensions than the file says.
    rotary_divisor: int = 1
    # See RopeScaling.
    yarn_truncate: bool = True
    yarn_beta_fast: float = 32.0
    # A key of the file raises the base.
    ntk_alpha: bool = False

    # Which tokens see which.

    # Of so many layers the last sees everything and the others a sliding window; 1: none has one.
    window_period: int = 1
    # Every layer has one.
    all_windowed: bool = False
    # The first of a period sees everything instead.
    full_first: bool = False
    # Where no key gives the size.
    default_window: int | None = None
    # See Builder.attention.
    chunked_windows: bool = False
    # Of queries in layers that do not rotate.
    unrotated_scale: PositionScale | None = None
    # Tokens see only what comes before them, unless a key says otherwise.
    causal: bool = True
    # Keys whose product is how many tokens attention picks; with no more it sees all.
    exact_within: tuple[str, ...] = ()
    # A key that says from which position on queries are scaled.
    scaled_beyond: str | None = None

    # Norms, and how blocks add up.

    norm: NormKind = "rms"
    residual: Residual = "sequential"
    # Blocks read normed input; False: only their output is normed.
    pre_norm: bool = True
    # The first layer has no norm before attention: its input is normed already.
    embedding_normed: bool = False
    # Embeddings are normed without a weight.
    plain_embedding_norm: bool = False
    # Each layer adds them, times a number of its own.
    adds_embedding: bool = False
    # Of norms of what blocks add, where it differs.
    post_norm_eps: float | None = None
    # The tensors with which the input of feed-forward blocks and the last hidden states are normed;
    # None: those are normed already.
    ffn_norm: str = "ffn_norm"
    output_norm: str | None = "output_norm"
    # Of what the blocks add; the first that the file has.
    post_norm: str = "post_attention_norm"
    ffn_post_norms: tuple[str, ...] = ("post_ffw_norm",)

    # Attention.

    # Queries and keys are normed after rotation.
    qk_norm_last: bool = False
    # Those of layers that rotate are normed behind it without a weight, and what the file has for
    # their norm is a factor for each head.
    plain_qk_norm: Callable[["ModelConfig"], bool] = never
    # Values are normed too, without a weight.
    value_norm: bool = False
    # Layers without a window that have no projection of values take their keys.
    values_from_keys: bool = False
    # Each head's queries come with as many numbers that gate its result.
    gated_queries: bool = False
    # What is made of numbers that gate it and come from a tensor of their own.
    attention_gate: Literal["sigmoid", "softplus"] = "sigmoid"
    # See Builder.delta_rule.
    key_heads: KeyHeads = "grouped"
    # Scores are divided by its square root, unless the file has a factor under the key.
    attention_width: Number = head_dim
    attention_scale_key: str = "attention.scale"
    # Caps where no key says one, 0 is none; None: the family has none, whatever the file says.
    attention_softcap: float | None = None
    final_softcap: float | None = None
    router_softcap: float | None = None
    # The largest bias per position of distance, 0 is none.
    alibi: Number = max_alibi_bias
    # From how many tokens on biases by distance are the same; see relative.py.
    relative_reach: int = 128
    # So many layers have keys and values, unless a key says it.
    own_kv_layers: int | None = None

    # What embeddings, what blocks add, and logits are multiplied with.

    embedding_factor: Number = embedding_scale
    residual_factor: Number = residual_scale
    logit_factor: Number = no_scale

    # Feed-forward blocks.

    activation: Activation = "silu"
    # A key may name another one.
    names_activation: bool = False
    # See Builder.gated.
    activation_alpha: float = 1.0
    activation_limit: float = float("inf")
    # The activation is that one, with the file's numbers for each layer.
    xielu: bool = False
    # They multiply activation(gate) and up; else activation(up) is all, and with gate_optional
    # where the file has no gate.
    gated: bool = True
    gate_optional: bool = False
    # Of those without a gate, where it differs.
    ungated_activation: UnaryActivation | None = None
    # The file's width of them is so many times the true one.
    feed_forward_divisor: int = 1

    # Experts.

    # How they are weighted, unless keys say it.
    gating: Gating = "softmax"
    normalize_gates: bool = False
    # Those that a token sees are together as wide as a block without any, unless a key says how
    # wide one is.
    experts_share_width: bool = False
    # Each is that wide, whatever the key says.
    experts_full_width: bool = False
    # How many all tokens share, unless a key says it.
    shared_experts: int = 0
    # The file's width of those is that of one.
    shared_width_each: bool = False
    # Multiplies the sum of these and the chosen.
    shared_factor: float = 1.0
    # Layers with experts may have a block without any, too, and take the mean of both, times
    # sqrt(2).
    mlp_beside_experts: bool = False
    # Of so many experts a group's score is the sum, where they have no selection bias.
    group_best: int = 2
    # What experts read is weighted, not what they give.
    weigh_inputs: bool = False
    # The router reads the layer's input.
    early_router: bool = False
    # The file's limits are of what the activation of gates reads, not of what it gives.
    limits_gate_input: bool = False

    # Other data flows.

    # What a token brings to each layer, unless a key says it; see per_layer_inputs.py.
    per_layer_input_width: int = 0
    # The residual stream is several; see altup.py.
    altup: bool = False
    # Two stacks of layers take turns; see cycles.py.
    cycles: bool = False
    # What a head that predicts a further token reads of the model, and gives for the one after it:
    # its last hidden states, normed, or the stream before that; None: no head is used.
    mtp_reads: MTPReads | None = None
    # Layers without heads have no attention, those without keys a matrix instead, those of width 0
    # no feed-forward block.
    may_skip: bool = False

    # The file.

    # What stands before "blk." in the names of tensors, in files that may hold another model, too.
    part: str = ""
    # Keys that ask for what is not done here.
    refused_keys: tuple[str, ...] = ()
    # Tensors of a layer, without "blk.N.", that files may bring: nobody reads the first, and the
    # second may be left.
    absent: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()

    # Rerankers.

    # Of which row the classifier makes scores.
    rank_pooling: Literal["cls", "last", "mean"] = "cls"
    # Of its hidden layer.
    classifier_activation: Literal["tanh", "gelu"] = "tanh"
    # Its scores are probabilities.
    classifier_softmax: bool = False

    def is_windowed(self, layer: int, period: int | None = None) -> bool:
        """Whether a layer has a window, where the file has one at all. period: the file's own."""
        if period is None and self.all_windowed:
            return True
        period = period or self.window_period
        return layer % period != (0 if self.full_first else period - 1)
