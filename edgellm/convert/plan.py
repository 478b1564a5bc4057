"""What a checkpoint becomes: keys and tensors under GGUF's names, held against what models of the
architecture need before anything is written."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from edgellm.convert.checkpoint import Checkpoint
from edgellm.convert.families import FAMILIES
from edgellm.convert.families.family import Family, settings_of
from edgellm.convert.families.refused import why_not
from edgellm.convert.families.wrapped import WRAPPERS, inside, unwrapped
from edgellm.convert.fixed import activation_key, check_fixed
from edgellm.convert.keys import Keys, frequency_divisors
from edgellm.convert.naming import named
from edgellm.convert.packings import unpacked
from edgellm.convert.sentence import sentence_parts
from edgellm.convert.settings import Settings
from edgellm.convert.weight import Weight, from_array
from edgellm.errors import EdgeLLMError, GGUFError, RequestError
from edgellm.gguf_loader import NewTensor, entry, open_gguf, write_header
from edgellm.kernels.formats import by_name
from edgellm.models import read_config, record

_LAYER = re.compile(r"blk\.(\d+)\.(.+)")
_BY_LAYER = (
    *("attention.head_count", "attention.head_count_kv", "feed_forward_length"),
    *("attention.sliding_window_pattern", "attention.rope_pattern"),
    *("swiglu_clamp_exp", "swiglu_clamp_shexp"),
)
# What comes of numbers that do not fit one another, which nobody checked one by one: heads that
# divide no width, a list of another length. Their kinds are checked where they are read.
_UNFIT = (ArithmeticError, ValueError)
_BARE = ("tokenizer.", "xielu.")  # keys without the architecture's name in front


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
    """keys: of the model, without its tokenizer. left: names of tensors that are no part of it."""

    architecture: str
    family: Family
    keys: Keys
    tensors: tuple[Planned, ...]
    left: tuple[str, ...] = ()


def make_plan(checkpoint: Checkpoint, type_of: Callable[[str, Weight], str]) -> Plan:
    """type_of: from a tensor's name and itself to the type it is written in.

    GGUFError for what the folder lacks or has wrong, RequestError for what is not known here.
    """
    try:
        return _plan(checkpoint, type_of)
    except _UNFIT as error:
        raise GGUFError(
            f"{checkpoint.folder / 'config.json'}: has a setting that does not fit the others "
            f"({type(error).__name__}: {error})"
        ) from error


def _plan(checkpoint: Checkpoint, type_of: Callable[[str, Weight], str]) -> Plan:
    family, values = _family(checkpoint)
    settings = Settings(checkpoint.folder / "config.json", values)
    architecture = family.name(settings)
    check_fixed(settings, architecture)
    stored = unpacked(checkpoint)
    learned = family.learned(stored)
    naming = named(stored, family, settings)
    found = dict(naming.found)
    found |= {name: from_array(name, d) for name, d in frequency_divisors(settings).items()}
    found |= family.extra(settings)
    pooled, projections = sentence_parts(checkpoint.folder)
    found |= projections
    tensors = [
        Planned(name, found[name], type_of(name, found[name])) for name in sorted(found, key=_place)
    ]
    own = family.keys(settings) | activation_key(settings, architecture) | learned | pooled
    keys = {
        name if name.startswith(_BARE) else f"{architecture}.{name}": value
        for name, value in _with_heads(own, settings.layers, naming.heads).items()
    }
    plan = Plan(architecture, family, keys, tuple(tensors), naming.left)
    _check_output(checkpoint, plan, values)
    _check(checkpoint, plan)
    return plan


def _family(checkpoint: Checkpoint) -> tuple[Family, Mapping[str, Any]]:
    """The family of the model, or of the text model inside, and its settings."""
    config = checkpoint.config
    names = config.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else "model of no architecture"
    if name in FAMILIES:
        return FAMILIES[name], settings_of(FAMILIES[name], config)
    if name in WRAPPERS:
        outer, (name, config) = name, unwrapped(name, config)
        if name in FAMILIES:
            family = inside(FAMILIES[name])
            return family, settings_of(family, config)
        name = f"{outer} around {name or 'a text model that config.json does not name'}"
    why = why_not(name)
    if why is not None:
        raise RequestError(f"{checkpoint.folder}: holds a {name} ({why})", "folder")
    raise RequestError(
        f"{checkpoint.folder}: holds a {name}, which cannot be converted: it is not known here; "
        "`edgellm convert --help` names the kinds that are",
        "folder",
    )


def _with_heads(keys: Keys, layers: int, heads: int) -> Keys:
    """The keys with `heads` more layers; what is said layer by layer is theirs too."""
    if not heads:
        return keys
    longer: Keys = {
        key: np.concatenate([value, value[-1:].repeat(heads)])
        if key in _BY_LAYER and isinstance(value, np.ndarray)
        else value
        for key, value in keys.items()
    }
    return longer | {"block_count": layers + heads, "nextn_predict_layers": heads}


def _place(name: str) -> tuple[int, int, str]:
    """In the order of layers, embeddings first."""
    layer = _LAYER.match(name)
    if layer:
        return 1, int(layer[1]), layer[2]
    return (0 if name == "token_embd.weight" else 2), 0, name


def _check_output(checkpoint: Checkpoint, plan: Plan, values: Mapping[str, Any]) -> None:
    """A decoder that says it has a matrix for logits of its own has one."""
    given = values.get("tie_word_embeddings")
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
        rotary = [planned for planned in plan.tensors if planned.name.startswith("rope_")]
        known = {p.name: p.weight.read(np.arange(p.weight.rows)).tobytes() for p in rotary}
        try:
            entries = [entry(key, value) for key, value in keys.items()]
            write_header(path, entries, [planned.tensor for planned in plan.tensors], known)
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
