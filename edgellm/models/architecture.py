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

    rope: which dimensions form a pair; None: positions are learned or biases.
    sections_split: a file with sections of rotary dimensions (for images) pairs "split".
    rotates: which layers rotate queries and keys. local_rope: windowed layers rotate without
    scaling, by a base of their own: local_rope_base unless a key says another, None is the base of
    all. local_rope_scaled: they are scaled as all are, by the base that a key gives them.
    rotary_divisor: layers without a window rotate so many times less dimensions than the file says.
    yarn_truncate, yarn_beta_fast: see RopeScaling. ntk_alpha: a key of the file raises the base.
    window_period: of so many layers the last sees everything and the others a sliding window; 1:
    none is windowed. all_windowed: every layer is. full_first: the first of a period sees
    everything instead. causal: tokens see only what comes before them, unless a key says otherwise.
    default_window: where no key gives one. chunked_windows: see Builder.attention. unrotated_scale:
    of queries in layers that do not rotate.
    norm, residual: above. pre_norm: blocks read normed input; False: only their output is normed.
    embedding_normed: the first layer has no norm before attention: its input is normed already.
    plain_embedding_norm: embeddings are normed without a weight. adds_embedding: each layer adds
    them, times a number of its own. post_norm_eps: of norms of what blocks add, where it differs.
    qk_norm_last: queries and keys are normed after rotation. plain_qk_norm: those of layers that
    rotate are normed behind it without a weight, and what the file has for their norm is a factor
    for each head. value_norm: values are normed too, without one.
    values_from_keys: of layers without a window, those without a projection of values take their
    keys.
    gated_queries: each head's queries come with as many numbers that gate its result.
    attention_gate: what is made of numbers that gate it and come from a tensor of their own.
    key_heads: see Builder.delta_rule.
    ffn_norm, output_norm: the tensors with which the input of feed-forward blocks and the last
    hidden states are normed; None: those are normed already. post_norm, ffn_post_norms: of what the
    blocks add, the first that the file has.
    attention_width: scores are divided by its square root. attention_scale_key: the file's factor
    instead. attention_softcap, final_softcap, router_softcap: caps of scores, logits and scores of
    experts where no key says one, 0 is none; None: the family has none, whatever the file says.
    alibi: largest bias per position of distance, 0 is none.
    embedding_factor, residual_factor, logit_factor: multiply embeddings, what blocks add, logits.
    names_activation: a key may name another one than `activation`.
    xielu: the activation is that one, with the file's numbers for each layer.
    gated: feed-forward blocks multiply activation(gate) and up; otherwise activation(up) is all,
    and with gate_optional where the file has no gate.
    feed_forward_divisor: the file's width of them is so many times the true one.
    ungated_activation: of feed-forward blocks without a gate, where it differs.
    relative_reach: from how many tokens on biases by distance are the same; see relative.py. part:
    what stands before "blk." in the names of tensors, in files that may hold another model, too.
    refused_keys: the file's, which ask for what is not done here. absent, unused: tensors of a
    layer, without "blk.N.", that files may bring: nobody reads the first, and the second may be
    left.
    gating, normalize_gates: how experts are weighted unless keys say it. experts_share_width: the
    experts that a token sees are together as wide as a block without any, unless a key says how
    wide one is. experts_full_width: each is that wide, whatever the key says. shared_experts: how
    many all tokens share, unless a key says it. shared_width_each: the file's width of those is
    that of one. shared_factor: multiplies the sum of these and the chosen. mlp_beside_experts:
    layers with experts may have a block without any, too, and take the mean of both, times sqrt(2).
    group_best: of so many experts a group's score is the sum, where they have no selection bias.
    weigh_inputs: what experts read is weighted, not what they give.
    early_router: reads the layer's input. limits_gate_input: the file's limits are of what the
    activation of gates reads, not of what it gives. activation_alpha, activation_limit: see
    Builder.gated. own_kv_layers: so many layers have keys and values, unless a key says it.
    per_layer_input_width: likewise. altup: the residual stream is several; see altup.py.
    cycles: two stacks of layers take turns; see cycles.py.
    mtp_reads: what a head that predicts a further token reads of the model, and gives for the one
    after it: its last hidden states, normed, or the stream before that; None: no head is used.
    exact_within: keys whose product is how many tokens attention picks; with no more than those it
    sees all. scaled_beyond: a key that says from which position on queries are scaled.
    may_skip: layers without heads have no attention, those without keys a matrix instead, those of
    width 0 no feed-forward block.
    rank_pooling: of which row a reranker's classifier makes scores. classifier_activation: of its
    hidden layer. classifier_softmax: its scores are probabilities.
    """

    rope: RopeLayout | None
    sections_split: bool = False
    rotates: Callable[["ModelConfig", int], bool] = every_layer
    local_rope: bool = False
    local_rope_base: float | None = None
    local_rope_scaled: bool = False
    rotary_divisor: int = 1
    yarn_truncate: bool = True
    yarn_beta_fast: float = 32.0
    ntk_alpha: bool = False
    window_period: int = 1
    all_windowed: bool = False
    full_first: bool = False
    default_window: int | None = None
    chunked_windows: bool = False
    unrotated_scale: PositionScale | None = None
    causal: bool = True
    norm: NormKind = "rms"
    residual: Residual = "sequential"
    pre_norm: bool = True
    embedding_normed: bool = False
    plain_embedding_norm: bool = False
    adds_embedding: bool = False
    post_norm_eps: float | None = None
    qk_norm_last: bool = False
    plain_qk_norm: Callable[["ModelConfig"], bool] = never
    value_norm: bool = False
    values_from_keys: bool = False
    gated_queries: bool = False
    attention_gate: Literal["sigmoid", "softplus"] = "sigmoid"
    key_heads: KeyHeads = "grouped"
    ffn_norm: str = "ffn_norm"
    output_norm: str | None = "output_norm"
    post_norm: str = "post_attention_norm"
    ffn_post_norms: tuple[str, ...] = ("post_ffw_norm",)
    attention_width: Number = head_dim
    attention_scale_key: str = "attention.scale"
    attention_softcap: float | None = None
    final_softcap: float | None = None
    router_softcap: float | None = None
    alibi: Number = max_alibi_bias
    embedding_factor: Number = embedding_scale
    residual_factor: Number = residual_scale
    logit_factor: Number = no_scale
    activation: Activation = "silu"
    names_activation: bool = False
    activation_alpha: float = 1.0
    activation_limit: float = float("inf")
    xielu: bool = False
    gated: bool = True
    gate_optional: bool = False
    ungated_activation: UnaryActivation | None = None
    feed_forward_divisor: int = 1
    relative_reach: int = 128
    part: str = ""
    refused_keys: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    gating: Gating = "softmax"
    normalize_gates: bool = False
    experts_share_width: bool = False
    experts_full_width: bool = False
    shared_experts: int = 0
    shared_width_each: bool = False
    shared_factor: float = 1.0
    mlp_beside_experts: bool = False
    group_best: int = 2
    weigh_inputs: bool = False
    early_router: bool = False
    limits_gate_input: bool = False
    own_kv_layers: int | None = None
    per_layer_input_width: int = 0
    altup: bool = False
    cycles: bool = False
    mtp_reads: MTPReads | None = None
    exact_within: tuple[str, ...] = ()
    scaled_beyond: str | None = None
    may_skip: bool = False
    rank_pooling: Literal["cls", "last", "mean"] = "cls"
    classifier_activation: Literal["tanh", "gelu"] = "tanh"
    classifier_softmax: bool = False

    def is_windowed(self, layer: int, period: int | None = None) -> bool:
        """Whether a layer has a window, where the file has one at all. period: the file's own."""
        if period is None and self.all_windowed:
            return True
        period = period or self.window_period
        return layer % period != (0 if self.full_first else period - 1)
