"""Mixtures of tensor types by llama.cpp's names: which type each tensor of a model gets.

The rules are those of `llama-quant.cpp` of llama.cpp b11434: some kinds of tensors are given more
bits, all of them or those of some layers. Knows names and shapes, not what is in a tensor.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Place:
    """Where a tensor is.

    index, count: the number of its layer among the layers that count. rank: how many of its kind
    come before it. gqa: heads per key and value head. experts: of a layer, 0 without.
    has_importance: whether there is an importance matrix.
    """

    index: int
    count: int
    rank: int
    gqa: int
    experts: int
    has_importance: bool


Rule = Callable[[Place], str | None]


@dataclass(frozen=True)
class Recipe:
    """A mixture.

    file_type: its number in `general.file_type`. base: the type of tensors without a rule. rules:
    by kind of tensor. falcon: those of Falcon, which go before. eight: what some kinds get in
    models of eight experts. single: the type of matrices that are no stack of experts, where it
    is another. deep: whether values get more bits in the deepest models.
    """

    file_type: int
    base: str
    rules: Mapping[str, Rule] = field(default_factory=dict)
    eight: Mapping[str, str] = field(default_factory=dict)
    falcon: Mapping[str, Rule] = field(default_factory=dict)
    single: str | None = None
    deep: bool = True


# Kinds of tensors, by what their names contain: the first that fits.
KINDS = (
    ("attn_qkv.weight", "attn_v"),
    ("attn_kv_b.weight", "attn_v"),
    ("attn_v.weight", "attn_v"),
    ("attn_k.weight", "attn_k"),
    ("attn_q.weight", "attn_q"),
    ("attn_output.weight", "attn_output"),
    ("ffn_up", "ffn_up"),
    ("ffn_gate", "ffn_gate"),
    ("ffn_down", "ffn_down"),
)

# Layers of the models of about 70 billion weights, whose values get more bits, by architecture.
DEEPEST: Mapping[str, int] = {"llama": 80, "deci": 80, "jais2": 68, "olmo": 80, "qwen2": 80}

# What a type becomes where rows are no multiple of its block; F16 where that does not fit either.
FALLBACKS = {
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S"), "IQ4_NL"),
    **dict.fromkeys(("IQ3_XXS", "IQ3_S", "IQ4_XS"), "IQ4_NL"),
    **dict.fromkeys(("Q1_0", "Q2_0", "Q2_K", "Q3_K", "TQ1_0", "TQ2_0"), "Q4_0"),
    **{"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0", "NVFP4": "MXFP4"},
}


def kind_of(name: str) -> str:
    """The kind of tensor that rules speak of, or `other`."""
    if name == "output.weight":
        return "output"
    if name in ("token_embd.weight", "per_layer_token_embd.weight"):
        return "token_embd"
    return next((kind for part, kind in KINDS if part in name), "other")


def _all(name: str) -> Rule:
    return lambda place: name


def _grouped(name: str, otherwise: str | None = None) -> Rule:
    """Where four or more heads share keys and values: the tensor is small."""
    return lambda place: name if place.gqa >= 4 else otherwise


def _first(count: int, name: str, otherwise: str | None = None) -> Rule:
    return lambda place: name if place.index < count else otherwise


def _first_part(parts: int, name: str, otherwise: str | None = None) -> Rule:
    return lambda place: name if place.index < place.count // parts else otherwise


def _more_bits(name: str) -> Rule:
    """The first and last eighths of the layers, and each third of those between."""

    def rule(place: Place) -> str | None:
        eighth = place.count // 8
        outer = place.index < eighth or place.index >= 7 * place.count // 8
        return name if outer or (place.index - eighth) % 3 == 2 else None

    return rule


def _either(first: Rule, second: Rule) -> Rule:
    """The first that says something."""
    return lambda place: first(place) or second(place)


def _of_eight(rule: Rule) -> Rule:
    return lambda place: rule(place) if place.experts == 8 else None


def _base(place: Place) -> None:
    """As if there were no rule."""


def _unweighted(rule: Rule) -> Rule:
    return lambda place: None if place.has_importance else rule(place)


def _weighted(rule: Rule) -> Rule:
    return lambda place: rule(place) if place.has_importance else None


def _inner(name: str) -> Rule:
    def rule(place: Place) -> str | None:
        return name if place.count // 8 <= place.index < 7 * place.count // 8 else None

    return rule


def _iq3_xxs_value(place: Place) -> str:
    if place.gqa >= 4:
        return "Q4_K"
    return "IQ3_XXS" if place.has_importance else "IQ3_S"


def _small(file_type: int, base: str, better: str, output: str | None = None) -> Recipe:
    """Types of two bits and less: `better` where llama.cpp spends more."""

    def value(place: Place) -> str:
        return "Q4_K" if place.gqa >= 4 or place.experts >= 4 else better

    def down(place: Place) -> str | None:
        return better if place.rank < place.count // 8 else None

    rules: dict[str, Rule] = {"attn_v": value, "ffn_down": down}
    if output is not None:
        rules["attn_output"] = _all(output)
    eight = {"attn_k": "Q4_K", "attn_output": "Q5_K"}
    return Recipe(file_type, base, rules, eight, deep=False)


_VALUES_Q8 = {"attn_v": "Q8_0", "attn_k": "Q8_0"}
_EIGHT = {**_VALUES_Q8, "attn_output": "Q5_K"}
_PLAIN_OUTPUT: Mapping[str, Rule] = {"attn_output": _base}
_IQ4 = {"attn_v": _grouped("Q5_K"), "ffn_down": _unweighted(_first_part(8, "Q5_K"))}

RECIPES: dict[str, Recipe] = {
    "F32": Recipe(0, "F32"),
    "F16": Recipe(1, "F16"),
    "BF16": Recipe(32, "BF16"),
    "Q8_0": Recipe(7, "Q8_0", {}, _VALUES_Q8),
    "Q4_0": Recipe(2, "Q4_0", {"ffn_down": _weighted(_first_part(8, "Q4_1"))}, _VALUES_Q8),
    "Q4_1": Recipe(3, "Q4_1", {}, _VALUES_Q8),
    "Q5_0": Recipe(8, "Q5_0", {"ffn_down": _weighted(_first_part(8, "Q5_1"))}, _VALUES_Q8),
    "Q5_1": Recipe(9, "Q5_1", {}, _VALUES_Q8),
    "Q2_K": Recipe(
        10,
        "Q2_K",
        {
            "attn_v": _grouped("Q4_K", "Q3_K"),
            "ffn_down": _all("Q3_K"),
            "attn_output": _all("Q3_K"),
        },
        _EIGHT,
        _PLAIN_OUTPUT,
    ),
    "Q2_K_S": Recipe(
        21,
        "Q2_K",
        {"attn_v": _grouped("Q4_K"), "ffn_down": _first_part(8, "Q4_K")},
        _VALUES_Q8,
    ),
    "Q3_K_S": Recipe(11, "Q3_K", {}, _EIGHT),
    "Q3_K_M": Recipe(
        12,
        "Q3_K",
        {
            "attn_v": _first(2, "Q5_K", "Q4_K"),
            "ffn_down": _first_part(16, "Q5_K", "Q4_K"),
            "attn_output": _all("Q4_K"),
        },
        _EIGHT,
        {**_PLAIN_OUTPUT, "ffn_down": _either(_first_part(16, "Q5_K"), _more_bits("Q4_K"))},
    ),
    "Q3_K_L": Recipe(
        13,
        "Q3_K",
        {"attn_v": _all("Q5_K"), "ffn_down": _all("Q5_K"), "attn_output": _all("Q5_K")},
        _VALUES_Q8,
        {"ffn_down": _all("Q4_K"), "attn_output": _all("Q4_K")},
    ),
    "Q4_K_S": Recipe(
        14,
        "Q4_K",
        {"attn_v": _first(4, "Q5_K"), "ffn_down": _first_part(8, "Q5_K")},
        _EIGHT,
        {"ffn_down": _base},
    ),
    "Q4_K_M": Recipe(
        15,
        "Q4_K",
        {"attn_v": _more_bits("Q6_K"), "ffn_down": _more_bits("Q6_K")},
        _EIGHT,
        {"ffn_down": _either(_first_part(16, "Q6_K"), _more_bits("Q5_K"))},
    ),
    "Q5_K_S": Recipe(16, "Q5_K", {}, _VALUES_Q8),
    "Q5_K_M": Recipe(
        17, "Q5_K", {"attn_v": _more_bits("Q6_K"), "ffn_down": _more_bits("Q6_K")}, _VALUES_Q8
    ),
    "Q6_K": Recipe(18, "Q6_K", {}, _VALUES_Q8),
    "IQ1_S": _small(24, "IQ1_S", "Q2_K", "IQ2_XXS"),
    "IQ1_M": _small(31, "IQ1_M", "Q2_K", "IQ2_XXS"),
    "IQ2_XXS": _small(19, "IQ2_XXS", "Q2_K"),
    "IQ2_XS": _small(20, "IQ2_XS", "Q2_K"),
    "IQ2_S": _small(28, "IQ2_XS", "IQ3_S", "IQ3_S"),
    "IQ2_M": _small(29, "IQ2_S", "IQ3_S", "IQ3_S"),
    "IQ3_XXS": Recipe(
        23,
        "IQ3_XXS",
        {
            "attn_v": _iq3_xxs_value,
            "attn_k": _all("IQ2_S"),
            "attn_q": _all("IQ2_S"),
            "ffn_down": _unweighted(_first_part(8, "Q4_K", "Q3_K")),
            "attn_output": _all("IQ3_S"),
        },
        _EIGHT,
        _PLAIN_OUTPUT,
    ),
    "IQ3_XS": Recipe(
        22,
        "IQ3_S",
        {
            "attn_v": _grouped("Q4_K"),
            "attn_k": _all("IQ3_XXS"),
            "attn_q": _all("IQ3_XXS"),
            "ffn_gate": _inner("IQ3_XXS"),
            "ffn_up": _inner("IQ3_XXS"),
        },
        _EIGHT,
    ),
    "IQ3_S": Recipe(26, "IQ3_S", {"attn_v": _grouped("Q4_K")}, _EIGHT),
    "IQ3_M": Recipe(
        27,
        "IQ3_S",
        {
            "attn_v": _all("Q4_K"),
            "ffn_down": _either(_first_part(8, "Q4_K"), _of_eight(_more_bits("Q4_K"))),
            "attn_output": _all("Q4_K"),
        },
        _EIGHT,
        _PLAIN_OUTPUT,
    ),
    "IQ4_NL": Recipe(25, "IQ4_NL", _IQ4, _EIGHT),
    "IQ4_XS": Recipe(30, "IQ4_XS", _IQ4, _EIGHT),
    "TQ1_0": Recipe(36, "TQ1_0", {}, _VALUES_Q8),
    "TQ2_0": Recipe(37, "TQ2_0", {}, _VALUES_Q8),
    "MXFP4": Recipe(38, "MXFP4", {}, _VALUES_Q8),
    "MXFP4_MOE": Recipe(38, "MXFP4", single="Q8_0"),
    "NVFP4": Recipe(39, "NVFP4", {}, _VALUES_Q8),
    "Q1_0": Recipe(40, "Q1_0", {}, _VALUES_Q8),
    "Q2_0": Recipe(41, "Q2_0", {}, _VALUES_Q8),
}
ALIASES = {"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}

# The types of the last matrix (also where the embeddings serve as it) and of embeddings alone,
# where they are not Q6_K and the mixture's base.
OUTPUTS = {
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS"), "Q5_K"),
    **{"Q8_0": "Q8_0", "MXFP4_MOE": "Q8_0"},
}
FALCON_OUTPUT = "Q8_0"
EMBEDDINGS = {
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS"), "Q2_K"),
    **dict.fromkeys(("IQ2_S", "IQ2_M", "IQ3_XXS"), "IQ3_S"),
    **dict.fromkeys(("TQ1_0", "TQ2_0", "Q2_0"), "Q4_K"),
}
