"""A plan for a file of a given size: types chosen by what they cost each tensor."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgellm.gguf_loader import GGUFFile
from edgellm.quantize.budget import spend
from edgellm.quantize.plan import Override, Plan, may_change, plan_of
from edgellm.quantize.recipes import kind_of
from edgellm.quantize.sensitivity import Choice, measure

Array = npt.NDArray[np.float32]

# Types worth trying: those of codebooks below four bits take long to write and want importance.
CANDIDATES: tuple[str, ...] = (
    *("Q2_K", "Q3_K", "IQ4_XS", "Q4_K", "Q5_K", "Q6_K"),
    *("IQ4_NL", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16"),
)

# What errors cost by kind of tensor where no text says, in units of most: between what `probes`
# found for SmolLM2 135M and for Qwen2.5 0.5B. An embedding that is the last matrix too costs what
# that does, whose errors go straight into the logits.
COSTS = {
    **{"output": 60.0, "token_embd": 5.0, "ffn_down": 1.7, "ffn_up": 1.7},
    **{"attn_output": 0.7, "attn_k": 0.7, "attn_q": 0.4},
}


def default_costs(file: GGUFFile) -> dict[str, float]:
    """By kind of tensor; those that are not there cost 1."""
    is_tied = "output.weight" not in file.tensors
    return {**COSTS, "token_embd": COSTS["output" if is_tied else "token_embd"]}


@dataclass(frozen=True)
class Target:
    """What a file may be: `nbytes` as a whole, or `bits` for each weight, one of the two."""

    nbytes: int | None = None
    bits: float | None = None

    def weights_of(self, file: GGUFFile) -> int:
        """Bytes for the tensors of this file, made smaller."""
        if self.bits is not None:
            return int(self.bits * file.num_parameters / 8)
        assert self.nbytes is not None
        return self.nbytes - _overhead(file)


def plan_for(
    file: GGUFFile,
    target: Target,
    types: Sequence[str],
    means: Mapping[str, Array],
    threads: int,
    overrides: Sequence[Override] = (),
    costs: Mapping[str, float] | None = None,
    watch: Callable[[int, int, str], None] | None = None,
) -> tuple[Plan, Mapping[str, Choice]]:
    """The plan of least error, and what was chosen for each tensor that had a choice.

    costs: of errors by kind of tensor, as `probes.costs` finds them; None: the default ones.
    RequestError when the target cannot be met.
    """
    free = [
        tensor
        for tensor in filter(may_change, file.tensors.values())
        if not any(override.pattern.search(tensor.name) for override in overrides)
    ]
    fixed = plan_of(file, {}, overrides).nbytes - sum(tensor.nbytes for tensor in free)
    choices = measure(file, free, types, means, threads, watch)
    costs = default_costs(file) if costs is None else costs
    weights = {name: costs.get(kind_of(name), 1.0) for name in choices}
    chosen = spend(choices, target.weights_of(file) - fixed, weights)
    plan = plan_of(file, {name: choice.type for name, choice in chosen.items()}, overrides)
    return plan, chosen


def _overhead(file: GGUFFile) -> int:
    """What a file has beside its tensors: metadata as here, and some more for padding."""
    whole = sum(part.stat().st_size for part in file.parts)
    return whole - file.num_bytes + (file.alignment + 1) * len(file.tensors) + 4096
