"""Writes a checkpoint as a GGUF file, tensors by strips of rows."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgellm.convert.checkpoint import Checkpoint
from edgellm.convert.keys import Keys
from edgellm.convert.plan import Planned, make_plan
from edgellm.convert.tokenizers import vocabulary
from edgellm.convert.weight import STRIP, Weight
from edgellm.errors import RequestError
from edgellm.gguf_loader import entry, write_gguf
from edgellm.kernels.formats import by_name, quantize_rows

Watch = Callable[[int, int, str], None]  # (bytes written, bytes in all, name)

AUTO = "auto"
# What a file's types are as general.file_type: "mostly" that.
FILE_TYPES = {
    **{"F32": 0, "F16": 1, "BF16": 32, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7},
    **{"TQ2_0": 37, "MXFP4": 38, "NVFP4": 39},
}
TYPES = (AUTO, "F32", "F16", "BF16", "Q8_0")
# Small matrices that are not multiplied with, or that choose: as GGUF files have them.
_KEPT = (
    *("_norm.weight", "ffn_gate_inp.weight", "position_embd.weight", "token_types.weight"),
    *("ssm_conv1d.weight", "shortconv.conv.weight", "ssm_a", "ssm_d", "ffn_gate_inp_shexp.weight"),
)


@dataclass(frozen=True)
class Converted:
    """size: of the file, in bytes. left_out: how many tensors of a part of the checkpoint are no
    part of the text model, such as its image encoder. note: what users should know of the file."""

    size: int
    left_out: Mapping[str, int]
    note: str | None = None


def write_converted(
    checkpoint: Checkpoint,
    path: Path,
    type_name: str = AUTO,
    rule: str | None = None,
    replace: bool = False,
    watch: Watch | None = None,
) -> Converted:
    """Writes the file, whole or not at all.

    type_name: of matrices, one of TYPES, AUTO for what holds what is stored; vectors are F32.
    rule: the pre-tokenizer's, where it cannot be told. GGUFError for the folder, RequestError for
    what cannot be done.
    """
    plan = make_plan(checkpoint, lambda name, weight: _type(name, weight, type_name))
    table = next(p for p in plan.tensors if p.name == "token_embd.weight")
    keys: Keys = {
        "general.architecture": plan.architecture,
        "general.type": "model",
        "general.name": checkpoint.folder.resolve().name,
        "general.file_type": FILE_TYPES[_most(plan.tensors)],
        "general.quantization_version": 2,
        **plan.keys,
        **vocabulary(
            checkpoint.folder, table.weight.shape[0], rule, plan.family.merges_over_characters
        ),
    }
    size = write_gguf(
        path,
        [entry(key, value) for key, value in keys.items()],
        [planned.tensor for planned in plan.tensors],
        _data(plan.tensors, watch),
        replace=replace,
    )
    left = Counter(".".join(name.split(".")[:2]) for name in plan.left)
    return Converted(size, left, plan.family.note)


def _most(tensors: tuple[Planned, ...]) -> str:
    """The type of most numbers."""
    counts: Counter[str] = Counter()
    for planned in tensors:
        counts[planned.type] += planned.weight.rows * planned.weight.columns
    return max(counts, key=counts.__getitem__)


def _type(name: str, weight: Weight, type_name: str) -> str:
    if len(weight.shape) < 2 or name.endswith(_KEPT):
        return "F32"
    wanted = weight.natural if type_name == AUTO else type_name
    return wanted if weight.columns % by_name(wanted).block_size == 0 else "F16"


def _data(
    tensors: tuple[Planned, ...], watch: Watch | None
) -> Iterator[Iterator[npt.NDArray[np.uint8]]]:
    done, total = 0, sum(planned.tensor.nbytes for planned in tensors)
    for planned in tensors:
        if watch:
            watch(done, total, planned.name)
        yield _strips(planned)
        done += planned.tensor.nbytes
    if watch:
        watch(done, total, "")


def _strips(planned: Planned) -> Iterator[npt.NDArray[np.uint8]]:
    """The tensor's bytes in its new type, some rows at a time."""
    weight = planned.weight
    height = max(1, STRIP // weight.columns)
    for start in range(0, weight.rows, height):
        rows = np.arange(start, min(start + height, weight.rows))
        if weight.type == planned.type:
            yield np.ascontiguousarray(weight.read(rows))
        else:
            yield np.ascontiguousarray(_converted(planned, weight.floats(rows)))


def _converted(planned: Planned, values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    try:
        blocks = quantize_rows(by_name(planned.type), values)
    except ValueError as error:
        raise RequestError(
            f"tensor {planned.name!r} to {planned.type}: {error} ({planned.weight.origin})", "type"
        ) from None
    if planned.type == "F16" and not np.isfinite(blocks.view("<f2")).all():
        raise RequestError(
            f"tensor {planned.name!r} holds numbers that F16 cannot: take BF16 or F32 "
            f"({planned.weight.origin})",
            "type",
        )
    return blocks
