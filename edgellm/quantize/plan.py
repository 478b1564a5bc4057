"""Which type each tensor of a file is written in: a mixture's rules, what the user asks for by
pattern, and what fits. Reads metadata and shapes, no tensor data."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgellm.errors import RequestError
from edgellm.gguf_loader import GGUFFile, TensorInfo
from edgellm.kernels.formats import FORMATS, by_id, by_name
from edgellm.quantize.recipes import (
    ALIASES,
    DEEPEST,
    EMBEDDINGS,
    FALCON_OUTPUT,
    FALLBACKS,
    OUTPUTS,
    RECIPES,
    Place,
    Recipe,
    kind_of,
)

# Matrices that stay as they are: small, or not multiplied with, by parts of their names.
_KEPT = (
    *("_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "altup", "laurel"),
    *("per_layer_model_proj", "position_embd", "token_types", "ssm_conv1d", "shortconv.conv"),
    *("indexer.k_proj", "indexer.q_proj", "time_mix_first", "time_mix_w0", "time_mix_w1"),
    *("time_mix_w2", "time_mix_v0", "time_mix_v1", "time_mix_v2", "time_mix_a0", "time_mix_a1"),
    *("time_mix_a2", "time_mix_g1", "time_mix_g2", "time_mix_decay_w1", "time_mix_decay_w2"),
    *("time_mix_lerp_fused", "attn_rel_b", "sam.pos_embd", "sam.neck.", "sam.net_", ".rel_pos"),
    *(".patch_embd", ".patch_merger", "a.rvq.codebook", "mm.a.code_embd"),
)
_LAYER = re.compile(r"blk\.(\d+)\.")


@dataclass(frozen=True)
class Override:
    """Tensors whose name `pattern` is found in get the type `type`."""

    pattern: re.Pattern[str]
    type: str


@dataclass(frozen=True)
class Planned:
    """A tensor, as it is and as it will be. fallback_of: the type that its rows do not fit."""

    tensor: TensorInfo
    type: str
    fallback_of: str | None = None

    @property
    def nbytes(self) -> int:
        if self.is_copied:
            return self.tensor.nbytes
        return by_name(self.type).row_bytes(self.tensor.columns) * self.tensor.rows

    @property
    def is_copied(self) -> bool:
        return self.type == self.tensor.type_name


@dataclass(frozen=True)
class Plan:
    """name: of the mixture. tensors: in file order."""

    name: str
    file_type: int
    tensors: tuple[Planned, ...]

    @property
    def nbytes(self) -> int:
        return sum(planned.nbytes for planned in self.tensors)


def recipe_name(text: str) -> str:
    """The name of a mixture as RECIPES has it; RequestError when there is none."""
    name = text.upper()
    name = ALIASES.get(name, name)
    if name not in RECIPES:
        raise RequestError(f"there is no type {text!r}: choose one of {', '.join(RECIPES)}", "type")
    return name


def parse_override(text: str) -> Override:
    """REGEX=TYPE; RequestError for anything else."""
    pattern, equals, name = text.rpartition("=")
    if not equals or not pattern:
        raise RequestError(f"{text!r}: expected REGEX=TYPE, such as attn_v=Q6_K", "tensor_type")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise RequestError(
            f"{pattern!r} is no regular expression: {error}", "tensor_type"
        ) from None
    return Override(compiled, type_name(name))


def type_name(text: str) -> str:
    """The name of a type that can be written; RequestError when there is none."""
    names = [fmt.name for fmt in FORMATS.values() if fmt.quantize is not None]
    if text.upper() not in names:
        raise RequestError(
            f"there is no type {text!r}: choose one of {', '.join(names)}", "tensor_type"
        )
    return text.upper()


def make_plan(
    file: GGUFFile,
    mixture: str,
    overrides: Sequence[Override] = (),
    has_importance: bool = False,
    pure: bool = False,
) -> Plan:
    """The plan for a file.

    overrides: the first that fits counts. pure: every matrix gets the mixture's base type.
    RequestError for a type that there is not, and for a pattern that is found nowhere.
    """
    name = recipe_name(mixture)
    recipe = RECIPES[name]
    asked = _asked(file, overrides)
    tensors = list(file.tensors.values())
    places = _Places(file, filter(may_change, tensors), has_importance)
    planned = []
    for tensor in tensors:
        wanted = tensor.type_name
        if may_change(tensor):
            wanted = recipe.base if pure else _by_rules(name, recipe, tensor, places)
        planned.append(_fitting(tensor, asked.get(tensor.name, wanted)))
    return Plan(name, recipe.file_type, tuple(planned))


def plan_of(file: GGUFFile, types: Mapping[str, str], overrides: Sequence[Override] = ()) -> Plan:
    """The plan that gives tensors these types, and leaves the others as they are.

    overrides: go before. The file says that it is of the mixture whose base most weights have.
    """
    asked = _asked(file, overrides)
    planned = tuple(
        _fitting(tensor, asked.get(tensor.name) or types.get(tensor.name, tensor.type_name))
        for tensor in file.tensors.values()
    )
    weights: Counter[str] = Counter()
    for one in planned:
        weights[one.type] += one.tensor.num_elements
    most = max(weights, key=weights.__getitem__, default="F32")
    file_type = next((r.file_type for r in RECIPES.values() if r.base == most), 0)
    return Plan(f"chosen, most of it {most}", file_type, planned)


def _asked(file: GGUFFile, overrides: Sequence[Override]) -> dict[str, str]:
    """Types asked for by pattern, by tensor name; RequestError for a pattern found nowhere."""
    for override in overrides:
        if not any(override.pattern.search(name) for name in file.tensors):
            raise RequestError(
                f"{override.pattern.pattern!r} is found in no tensor's name", "tensor_type"
            )
    found = {}
    for tensor in filter(may_change, file.tensors.values()):
        types = (o.type for o in overrides if o.pattern.search(tensor.name))
        if (wanted := next(types, None)) is not None:
            found[tensor.name] = wanted
    return found


def may_change(tensor: TensorInfo) -> bool:
    """Whether it is a matrix that other types are for."""
    is_matrix = any(extent > 1 for extent in tensor.shape[1:])
    kept = any(part in tensor.name for part in _KEPT)
    known = tensor.type_id in FORMATS
    return is_matrix and tensor.name.endswith("weight") and not kept and known


def _fitting(tensor: TensorInfo, wanted: str) -> Planned:
    if wanted == tensor.type_name or tensor.columns % by_name(wanted).block_size == 0:
        return Planned(tensor, wanted)
    instead = FALLBACKS.get(wanted, "F16")
    if tensor.columns % by_name(instead).block_size:
        instead = "F16"
    return Planned(tensor, instead, wanted)


def _by_rules(name: str, recipe: Recipe, tensor: TensorInfo, places: "_Places") -> str:
    base = recipe.base
    if by_name(base).block_size == 1:
        return base
    kind = kind_of(tensor.name)
    if kind == "output" or (kind == "token_embd" and places.is_tied):
        if tensor.columns % by_name(base).block_size:
            return "Q8_0"
        return FALCON_OUTPUT if places.is_falcon else OUTPUTS.get(name, "Q6_K")
    if recipe.single is not None:
        is_stack = len(tensor.shape) > 2 and tensor.shape[2] > 1
        return base if is_stack and places.is_of_experts(kind) else recipe.single
    if kind == "token_embd":
        return EMBEDDINGS.get(name, base)
    if places.experts == 8 and kind in recipe.eight:
        return recipe.eight[kind]
    if places.experts == 8 and kind == "attn_output":
        return base
    rules = {**recipe.rules, **recipe.falcon} if places.is_falcon else recipe.rules
    rule = rules.get(kind)
    found = (rule(places.of(tensor, kind)) if rule else None) or base
    if kind == "attn_v" and recipe.deep and places.is_deepest and found in ("Q3_K", "Q4_K"):
        return "Q5_K"
    return found


class _Places:
    """Where the tensors of a file are, as rules want to know it."""

    def __init__(self, file: GGUFFile, tensors: Iterable[TensorInfo], has_importance: bool) -> None:
        architecture = file.string("general.architecture") or ""
        self.is_tied = "output.weight" not in file.tensors
        self.experts = file.integer(f"{architecture}.expert_count") or 0
        layers = file.integer(f"{architecture}.block_count") or 0
        heads = _first(file.metadata.get(f"{architecture}.attention.head_count"))
        kv_heads = _first(file.metadata.get(f"{architecture}.attention.head_count_kv"), heads)
        self._gqa = heads // kv_heads if kv_heads else 0
        has_groups = architecture != "llama" or self._gqa != 1  # of 80 layers without: 65B
        self.is_deepest = layers == DEEPEST.get(architecture, 0) and has_groups
        self.is_falcon = architecture == "falcon"
        self._architecture = architecture
        self._layers = layers
        self._has_importance = has_importance
        self._ranks: dict[str, tuple[int, int]] = {}
        by_kind: dict[str, list[str]] = {}
        for tensor in sorted(tensors, key=lambda tensor: _layer(tensor.name)):
            by_kind.setdefault(kind_of(tensor.name), []).append(tensor.name)
        for names in by_kind.values():
            self._ranks |= {name: (rank, len(names)) for rank, name in enumerate(names)}

    def of(self, tensor: TensorInfo, kind: str) -> Place:
        rank, count = self._ranks[tensor.name]
        index = rank
        if kind != "attn_v":
            count = self._layers
            index = _layer(tensor.name) if self.experts > 1 else rank
        return Place(index, count, rank, self._gqa, self.experts, self._has_importance)

    def is_of_experts(self, kind: str) -> bool:
        """Whether a stack of matrices of a kind is one of experts: heads may have their own."""
        return self._architecture != "bailingmoe3" or kind.startswith("ffn_")


def _layer(name: str) -> int:
    found = _LAYER.match(name)
    return int(found[1]) if found else -1


def _first(value: Any, otherwise: int = 0) -> int:
    """A number, or that of the first layer; `otherwise` without any."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and len(value):
        return int(value[0])
    return value if isinstance(value, int) else otherwise


def is_requantized(plan: Plan) -> bool:
    """Whether weights lose bits a second time."""
    return any(
        not planned.is_copied and by_id(planned.tensor.type_id).block_size > 1
        for planned in plan.tensors
    )
