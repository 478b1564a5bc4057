"""The tensors of a checkpoint under GGUF's names, changed as its family asks."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from edgellm.convert.families.family import Family
from edgellm.convert.heads import behind_layers, count_heads, gguf_name, is_of_head
from edgellm.convert.moves import Move, unchanged
from edgellm.convert.settings import Settings
from edgellm.convert.stacks import stack_experts, stack_numbered
from edgellm.convert.weight import Weight, same_numbers
from edgellm.errors import RequestError

_OUTPUTS = ("lm_head.weight", "embed_out.weight")
_TABLES = (
    "embed_tokens.weight",
    "embeddings.weight",
    "word_embeddings.weight",
    "wte.weight",
    "embed_in.weight",
    "tok_embeddings.weight",
)
# Names that are GGUF's already.
_OWN = re.compile(r"blk\.\d+\.|rope_|altup_|cls\.|hrm\.|output\.weight")
# No part of any model: what follows from settings.
_CACHES = (r"rotary_emb\.inv_freq$", r"\.rotary_emb\.")

Translation = Callable[[str], str | None]


@dataclass(frozen=True, eq=False)
class Naming:
    """found: tensors by their names in GGUF. heads: layers at their end that predict further
    tokens. left: names of tensors that are no part of the text model."""

    found: Mapping[str, Weight]
    heads: int
    left: tuple[str, ...]


def named(tensors: Mapping[str, Weight], family: Family, settings: Settings) -> Naming:
    """All tensors that the model has a place for.

    GGUFError for one without, or twice; RequestError where the package gguf is too old.
    """
    left = {name for name in tensors if _is_any(name, (*family.left, *_CACHES))}
    layers, heads = settings.layers, count_heads(tensors.keys() - left, settings)
    kept = {
        _renamed(behind_layers(name, layers), family): weight
        for name, weight in tensors.items()
        if name not in left
    }
    translate = _translation(family.names_of or (family.name(settings),), layers + heads)
    whole = stack_numbered(stack_experts(kept))
    try:
        found = _translated(whole, family, settings, translate)
    except _Unplaced as error:
        if not _is_behind(error.name, layers, heads):
            raise error.weight.wrong(
                f"{error.name!r} has no place in {family.name(settings)}"
            ) from None
        found = _translated(
            {name: weight for name, weight in whole.items() if not _is_behind(name, layers, heads)},
            family,
            settings,
            translate,
        )
        left |= {name for name in tensors if is_of_head(name, layers, heads)}
        heads = 0
    shown = sorted(name for name in left if not _is_any(name, _CACHES))
    return Naming(found, heads, tuple(shown))


class _Unplaced(Exception):
    """A tensor without a name in GGUF."""

    def __init__(self, name: str, weight: Weight) -> None:
        super().__init__(name)
        self.name, self.weight = name, weight


def _translated(
    tensors: Mapping[str, Weight], family: Family, settings: Settings, translate: Translation
) -> dict[str, Weight]:
    found: dict[str, Weight] = {}
    for name, weight in tensors.items():
        if settings.tied and name in _OUTPUTS and _is_copy(weight, tensors):
            continue
        for moved, one in _move(name, family)(name, weight, settings):
            new = translate(moved)
            if new is None:
                raise _Unplaced(name, weight)
            if new in found:
                raise weight.wrong(f"would be {new}, as {found[new].origin} already is")
            found[new] = one
    return found


def _is_copy(output: Weight, tensors: Mapping[str, Weight]) -> bool:
    """Whether the matrix for logits is that of embeddings again: another one counts, whatever
    config.json says of tied embeddings, as in `transformers`."""
    tables = [weight for name, weight in tensors.items() if name.endswith(_TABLES)]
    return any(same_numbers(output, table) for table in tables)


def _is_behind(name: str, layers: int, heads: int) -> bool:
    """Whether a name, a checkpoint's or GGUF's, is of a head."""
    block = re.match(r"blk\.(\d+)\.", name)
    return int(block[1]) >= layers if block else is_of_head(name, layers, heads)


def _move(name: str, family: Family) -> Move:
    for pattern, move in family.moves.items():
        if re.search(pattern, name):
            return move
    return unchanged


def _renamed(name: str, family: Family) -> str:
    for pattern, new in family.renames.items():
        name = re.sub(pattern, new, name)
    return name


def _is_any(name: str, patterns: Iterable[str]) -> bool:
    return any(re.search(pattern, name) for pattern in patterns)


def _translation(architectures: Sequence[str], layers: int) -> Translation:
    """From a checkpoint's names of tensors to GGUF's, which stay; None for one without."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map  # takes a while

    by_name = {name: arch for arch, name in MODEL_ARCH_NAMES.items()}
    for name in architectures:
        if name not in by_name:
            raise RequestError(
                f"the installed package gguf has no names of tensors for {name}: update it",
                "folder",
            )
    maps = [get_tensor_name_map(by_name[name], layers) for name in architectures]

    def translate(name: str) -> str | None:
        if _OWN.match(name):
            return name
        suffixes = (".weight", ".bias", ".scale")
        found = (known.get_name(name, try_suffixes=suffixes) for known in maps)
        return next((new for new in found if new), None) or gguf_name(name)

    return translate
