"""Checkpoints that are quantised already: their tensors as those of the model they stand for.

A row for each `quant_method` in config.json. What blocks of GGUF can hold stays what it is.
"""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

from edgellm.convert.checkpoint import Checkpoint
from edgellm.convert.packings import (
    awq,
    bitnet,
    bitsandbytes,
    compressed,
    fp8,
    gptq,
    modelopt,
    mxfp4,
)
from edgellm.convert.packings.packed import Packed
from edgellm.convert.weight import Weight, from_stored
from edgellm.errors import RequestError

# Each gives what it makes of packed tensors, and takes them; what is left is plain.
METHODS: Mapping[str, Callable[[Packed], Iterator[tuple[str, Weight]]]] = {
    "awq": awq.weights,
    "bitnet": bitnet.weights,
    "bitsandbytes": bitsandbytes.weights,
    "compressed-tensors": compressed.weights,
    "fbgemm_fp8": fp8.weights,
    "fp8": fp8.weights,
    "gptq": gptq.weights,
    "modelopt": modelopt.weights,
    "mxfp4": mxfp4.weights,
}


def unpacked(checkpoint: Checkpoint) -> dict[str, Weight]:
    """The tensors of the model by their names in a checkpoint that is not quantised, but for those
    that hold no number.

    RequestError names a way to quantise that is not known here, GGUFError a tensor that is missing
    or of another shape.
    """
    tensors = {name: stored for name, stored in checkpoint.tensors.items() if prod(stored.shape)}
    packed = Packed(checkpoint.folder, tensors, _config(checkpoint))
    found: dict[str, Weight] = {}
    if packed.config:
        found |= dict(_method(checkpoint, packed)(packed))
    return found | {
        name: fp8.unscaled(stored) if stored.dtype in fp8.TABLES else from_stored(stored)
        for name, stored in packed.tensors.items()
    }


def _config(checkpoint: Checkpoint) -> Mapping[str, Any]:
    text = checkpoint.config.get("text_config")
    for config in (checkpoint.config, text if isinstance(text, dict) else {}):
        for name in ("quantization_config", "compression_config"):
            found = config.get(name)
            if isinstance(found, dict):
                return found
            if found is not None:
                raise RequestError(f"{checkpoint.folder}: {name} is {found!r}: not known", "folder")
    return {}


def _method(
    checkpoint: Checkpoint, packed: Packed
) -> Callable[[Packed], Iterator[tuple[str, Weight]]]:
    name = packed.config.get("quant_method")
    if name is None and ("load_in_4bit" in packed.config or "load_in_8bit" in packed.config):
        name = "bitsandbytes"
    if not isinstance(name, str) or name not in METHODS:
        raise RequestError(
            f"{checkpoint.folder}: is quantised by {name!r}, which is not known here: expected one "
            f"of {', '.join(METHODS)}, or take the checkpoint that it was made from",
            "folder",
        )
    return METHODS[name]
