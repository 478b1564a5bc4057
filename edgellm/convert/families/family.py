"""What a row of the table of families can say. Knows no family by name.

Facts in the tables are from the models' code in `transformers` and the conversion scripts of
llama.cpp b11434.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgellm.convert.keys import Keys, decoder
from edgellm.convert.moves import Move, as_named, gate_and_up, paired_keys, paired_queries
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Weight

# Rows of queries and keys in pairs, as GGUF's llama and its kin have them.
PAIRS: Mapping[str, Move] = {
    r"self_attn\.q_proj\.(weight|bias)$": paired_queries,
    r"self_attn\.k_proj\.(weight|bias)$": paired_keys,
}
# Experts that lie in one tensor.
FUSED_EXPERTS: Mapping[str, Move] = {
    r"\bexperts\.gate_up_proj(\.weight)?$": gate_and_up(
        "{layer}.ffn_gate_exps.weight", "{layer}.ffn_up_exps.weight"
    ),
}
EXPERTS: Mapping[str, Move] = {
    **FUSED_EXPERTS,
    r"\bexperts\.down_proj(\.weight)?$": as_named("{layer}.ffn_down_exps.weight"),
}
# Settings that a family's config.json leaves out.
TIED: Mapping[str, Any] = {"tie_word_embeddings": True}


def own_activation(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """For `implied`: the setting of the blocks' activation, which is the architecture's own."""
    return {"hidden_act": None}


@dataclass(frozen=True)
class Family:
    """architecture: in GGUF, or how settings tell it. keys: all of it but its name. moves: what
    becomes of tensors whose names a pattern is found in, the first that fits; others keep what they
    are. renames: patterns in names and what stands for them before they are looked up. left:
    patterns of names that are no part of the text model. nested: where settings of the text model
    lie, if they do. defaults: of settings that config.json may leave out. implied: settings that
    follow from others, whatever config.json says. learned: keys whose numbers are tensors of the
    checkpoint, which it takes away. extra: tensors that follow from settings.
    note: what users should know of the file that is made.
    merges_over_characters: GGUF names the tokenizer after the family, where others that merge
    characters are SentencePiece's. names_of: architectures whose tensors have the same
    names, where the package gguf does not know this one."""

    architecture: str | Callable[[Settings], str]
    keys: Callable[[Settings], Keys] = decoder
    moves: Mapping[str, Move] = field(default_factory=dict)
    renames: Mapping[str, str] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    nested: str | None = "text_config"
    defaults: Mapping[str, Any] = field(default_factory=dict)
    implied: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda config: {}
    learned: Callable[[dict[str, Weight]], Keys] = lambda tensors: {}
    extra: Callable[[Settings], Mapping[str, Weight]] = lambda settings: {}
    merges_over_characters: bool = False
    names_of: tuple[str, ...] = ()
    note: str | None = None

    def name(self, s: Settings) -> str:
        return self.architecture if isinstance(self.architecture, str) else self.architecture(s)


def settings_of(family: Family, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of config.json that is of the text model, over what it may leave out."""
    nested = config.get(family.nested) if family.nested else None
    part = nested if isinstance(nested, dict) else {}
    given = {
        **config,
        **{name: v for name, v in part.items() if v is not None or name not in config},
    }
    tied = config.get("tie_word_embeddings")  # of the whole model, whatever a part says
    values = {**family.defaults, **given}
    if tied is not None:
        values["tie_word_embeddings"] = tied
    return {**values, **family.implied(values)}
