"""What a checkpoint becomes: keys and tensors under GGUF's names, held against what models of the
architecture need before anything is written."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from edgellm.convert.checkpoint import Checkpoint
from edgellm.convert.families import FAMILIES
from edgellm.convert.families.family import Family, settings_of
from edgellm.convert.keys import Keys, frequency_divisors
from edgellm.convert.moves import Move, stack_experts, stack_numbered, unchanged
from edgellm.convert.packings import unpacked
from edgellm.convert.sentence import sentence_parts
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Weight, from_array
from edgellm.errors import EdgeLLMError, GGUFError, RequestError
from edgellm.gguf_loader import NewTensor, entry, open_gguf, write_header
from edgellm.kernels.formats import by_name
from edgellm.models import read_config, record

_CHECKPOINT_LAYER = re.compile(r"\blayers\.(\d+)\.")
_LAYER = re.compile(r"blk\.(\d+)\.(.+)")
_BARE = ("tokenizer.", "xielu.")  # keys without the architecture's name in front
_OWN = ("rope_", "altup_", "cls.")  # names that are GGUF's already
# No part of any model: frequencies that follow from settings, heads that predict further tokens.
_LEFT = (r"rotary_emb\.inv_freq$", r"\.rotary_emb\.", r"^(model\.)?mtp\.")


@dataclass(frozen=True, eq=False)
class Planned:
    """A tensor to be written in a type."""

    name: str
    weight: Weight
    type: str

    @property
    def tensor(self) -> NewTensor:
        return NewTensor(self.name, self.weight.shape[::-1], by_name(self.type).type_id)


@dataclass(frozen=True, eq=False)
class Plan:
    """keys: of the model, without its tokenizer."""

    architecture: str
    family: Family
    keys: Keys
    tensors: tuple[Planned, ...]


def make_plan(checkpoint: Checkpoint, type_of: Callable[[str, Weight], str]) -> Plan:
    """type_of: from a tensor's name and itself to the type it is written in.

    GGUFError for what the folder lacks or has wrong, RequestError for what is not known here.
    """
    family = _family(checkpoint)
    values = settings_of(family, checkpoint.config)
    settings = Settings(checkpoint.folder / "config.json", values)
    architecture = family.name(settings)
    stored = unpacked(checkpoint)
    learned = family.learned(stored)
    found = _named(stored, family, settings)
    found |= {name: from_array(name, d) for name, d in frequency_divisors(settings).items()}
    found |= family.extra(settings)
    pooled, projections = sentence_parts(checkpoint.folder)
    found |= projections
    tensors = [
        Planned(name, found[name], type_of(name, found[name])) for name in sorted(found, key=_place)
    ]
    keys = {
        name if name.startswith(_BARE) else f"{architecture}.{name}": value
        for name, value in (family.keys(settings) | learned | pooled).items()
    }
    plan = Plan(architecture, family, keys, tuple(tensors))
    _check_output(checkpoint, plan)
    _check(checkpoint, plan)
    return plan


def _family(checkpoint: Checkpoint) -> Family:
    names = checkpoint.config.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else "model of no architecture"
    if name not in FAMILIES:
        raise RequestError(
            f"{checkpoint.folder}: holds a {name}, which cannot be converted yet: one of "
            f"{', '.join(sorted(FAMILIES))} is expected",
            "folder",
        )
    return FAMILIES[name]


def _named(tensors: Mapping[str, Weight], family: Family, settings: Settings) -> dict[str, Weight]:
    """The tensors under GGUF's names, changed as the family asks."""
    translate = _translation(family.names_of or family.name(settings), settings.layers)
    kept = {
        _renamed(name, family): weight
        for name, weight in tensors.items()
        if not _is_any(name, (*family.left, *_LEFT)) and not _is_beyond(name, settings)
    }
    found: dict[str, Weight] = {}
    for name, weight in stack_numbered(stack_experts(kept)).items():
        if settings.tied and name.endswith(("lm_head.weight", "embed_out.weight")):
            continue
        for moved, one in _move(name, family)(name, weight, settings):
            new = translate(moved)
            if new is None:
                raise weight.wrong(f"{name!r} has no place in {family.name(settings)}")
            if new in found:
                raise weight.wrong(f"would be {new}, as {found[new].origin} already is")
            found[new] = one
    return found


def _is_beyond(name: str, settings: Settings) -> bool:
    """Whether it is of a layer that predicts further tokens, behind all others."""
    layer = _CHECKPOINT_LAYER.search(name)
    extra = settings.optional_integer("num_nextn_predict_layers") or 0
    return layer is not None and settings.layers <= int(layer[1]) < settings.layers + extra


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


def _translation(architecture: str, layers: int) -> Callable[[str], str | None]:
    """From a checkpoint's names of tensors to GGUF's, which stay; None for one without."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map  # takes a while

    by_name = {name: arch for arch, name in MODEL_ARCH_NAMES.items()}
    if architecture not in by_name:
        raise RequestError(
            f"the installed package gguf has no names of tensors for {architecture}: update it",
            "folder",
        )
    known = get_tensor_name_map(by_name[architecture], layers)

    def translate(name: str) -> str | None:
        if _LAYER.match(name) or name.startswith(_OWN):
            return name
        new: str | None = known.get_name(name, try_suffixes=(".weight", ".bias", ".scale"))
        return new

    return translate


def _place(name: str) -> tuple[int, int, str]:
    """In the order of layers, embeddings first."""
    layer = _LAYER.match(name)
    if layer:
        return 1, int(layer[1]), layer[2]
    return (0 if name == "token_embd.weight" else 2), 0, name


def _check_output(checkpoint: Checkpoint, plan: Plan) -> None:
    """A decoder that says it has a matrix for logits of its own has one."""
    given = settings_of(plan.family, checkpoint.config).get("tie_word_embeddings")
    is_decoder = plan.keys.get(f"{plan.architecture}.attention.causal") is not False
    if given is False and is_decoder and all(p.name != "output.weight" for p in plan.tensors):
        raise GGUFError(
            f"{checkpoint.folder}: tensor output.weight (lm_head.weight) is missing, and "
            "config.json says that embeddings do not take its place"
        )


def _check(checkpoint: Checkpoint, plan: Plan) -> None:
    """Every tensor is there and of the shape that the settings say; GGUFError names the first.

    The file is written without its data, and its model recorded as when it is loaded.
    """
    with TemporaryDirectory(prefix="edgellm-") as folder:
        path = Path(folder) / "plan.gguf"
        keys: Keys = {"general.architecture": plan.architecture, **plan.keys}
        entries = [entry(key, value) for key, value in keys.items()]
        rotary = [planned for planned in plan.tensors if planned.name.startswith("rope_")]
        known = {p.name: p.weight.read(np.arange(p.weight.rows)).tobytes() for p in rotary}
        write_header(path, entries, [planned.tensor for planned in plan.tensors], known)
        try:
            with open_gguf(path) as file:
                config = read_config(file)
                record(file, config, config.context_length)
        except EdgeLLMError as error:
            raise GGUFError(f"{checkpoint.folder}: {_explained(str(error), plan)}") from None


def _explained(message: str, plan: Plan) -> str:
    """With what the tensors of a message are in the checkpoint."""
    message = message.removeprefix(f"{plan.architecture}.")
    named = [p for p in plan.tensors if re.search(rf"\b{re.escape(p.name)}\b", message)]
    return "; ".join([message, *(f"{p.name} is of {p.weight.origin}" for p in named[:2])])
