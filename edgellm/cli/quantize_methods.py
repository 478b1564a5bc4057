"""What `edgellm quantize` does beyond rounding: scales that move, errors that are made up for."""

import re
from collections.abc import Callable, Mapping

from edgellm.cli.progress import named_bar
from edgellm.errors import RequestError
from edgellm.gguf_loader import GGUFFile
from edgellm.models import read_config, record
from edgellm.quantize.folds import Factors, factors_of, find_folds
from edgellm.quantize.plan import Plan
from edgellm.quantize.scaling import choose_scales
from edgellm.quantize.strips import Array
from edgellm.quantize.write import can_compensate

Say = Callable[[str], None]

_TOKENS_PER_COLUMN = 4  # fewer are learned by heart, and what is made up for is chance
_LAYER = re.compile(r"^blk\.\d+\.")


def compensable(plan: Plan, tokens: int, say: Say) -> set[str]:
    """Tensors whose errors can be made up for, with a text of so many tokens."""
    able = [planned.tensor for planned in plan.tensors if can_compensate(planned)]
    names = {tensor.name for tensor in able if tensor.columns * _TOKENS_PER_COLUMN <= tokens}
    if not names:
        raise RequestError(
            f"no matrix can be rounded so: the text gives {tokens:,} tokens, which is less than "
            f"{_TOKENS_PER_COLUMN} for each column, or their types cannot be",
            "gptq",
        )
    wide = sorted({tensor.columns for tensor in able if tensor.name not in names})
    if wide:
        say(
            f"{len(able) - len(names)} matrices of {', '.join(map(str, wide))} columns are rounded "
            f"plainly: {tokens:,} tokens say too little of so many"
        )
    return names


def moved_scales(
    file: GGUFFile, plan: Plan, means: Mapping[str, Array], smooth: bool, threads: int, say: Say
) -> Mapping[str, Factors]:
    """What rows and columns are multiplied with, by tensor name. means: of squared inputs.

    RequestError for an architecture in which none can be, naming a tensor and why.
    """
    config = read_config(file)
    folds = find_folds(record(file, config, 1), file)
    if not folds.found:
        name, why = next(iter(folds.fixed.items()), ("no tensor", "it has no matrices"))
        raise RequestError(
            f"no scales can move between the weights of {config.architecture} ({name}: {why}): "
            "leave out --awq and --smooth",
            "awq",
        )
    with named_bar("scaling") as watch:
        scales = choose_scales(
            file,
            plan,
            folds.found,
            means,
            smooth,
            threads,
            watch,
        )
    kinds = sorted({_LAYER.sub("", f"{name} ({why})") for name, why in folds.fixed.items()})
    say(f"{len(scales)} of {len(folds.found)} groups of matrices are scaled")
    if kinds:
        say(f"cannot be: {'; '.join(kinds)}")
    return factors_of(file, scales)
