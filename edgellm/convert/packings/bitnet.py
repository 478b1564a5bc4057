"""BitNet: weights that are -1, 0 or 1 under one scale for a matrix, four of them to a byte.

    weight        uint8 (rows / 4, columns)   one more than the weight; a quarter of the rows in
                                              each two bits, the first in the lowest
    weight_scale  (1)                         what outputs are divided by (`bitlinear`) or
                                              multiplied with (`autobitlinear`)

In `online` mode matrices are those of training, which the model rounds when it runs.
Sources: Ma et al. 2024, and the integration in `transformers`.
"""

from collections.abc import Iterator

import numpy as np

from edgellm.convert.packings.packed import Packed, floats, numbers, origin, shaped
from edgellm.convert.weight import Indices, Values, Weight, from_floats, from_stored, ternary
from edgellm.errors import GGUFError

_CLASSES = ("bitlinear", "autobitlinear")
_MODES = ("offline", "online")


def weights(packed: Packed) -> Iterator[tuple[str, Weight]]:
    """The matrices of the model, to be written as TQ2_0, which holds three values."""
    kind = packed.config.get("linear_class", "bitlinear")
    if kind not in _CLASSES:
        raise packed.refuse("linear_class", kind, " or ".join(_CLASSES))
    mode = packed.config.get("quantization_mode", "offline")
    if mode not in _MODES:
        raise packed.refuse("quantization_mode", mode, " or ".join(_MODES))
    if packed.config.get("use_rms_norm"):
        raise packed.refuse("use_rms_norm", True, "false: GGUF has no norm before each matrix")
    for prefix in packed.names("_proj.weight"):
        name = f"{prefix}_proj.weight"
        if kind == "autobitlinear" and mode == "online":
            yield name, ternary(from_stored(packed.take(name)))
        elif f"{prefix}_proj.weight_scale" in packed.tensors:
            yield name, _unpacked(packed, f"{prefix}_proj", divides=kind == "bitlinear")


def _unpacked(packed: Packed, prefix: str, divides: bool) -> Weight:
    stored = packed.take(f"{prefix}.weight")
    if len(stored.shape) != 2 or stored.dtype != "U8":
        raise GGUFError(f"{origin(stored)} is {stored.dtype} {stored.shape}, expected a U8 matrix")
    given = packed.take(f"{prefix}.weight_scale")
    scale = floats(shaped(given, (1,) if given.shape else ())).reshape(1, 1)
    if not (np.isfinite(scale).all() and scale.all()):
        raise GGUFError(f"{origin(given)} is {scale.item()}, expected a number that is not 0")
    factor = np.float32(1) / scale if divides else scale
    codes, quarter = numbers(stored), stored.shape[0]

    def read(rows: Indices) -> Values:
        octets = codes[rows % quarter]
        fields = octets >> (2 * (rows // quarter)).astype(np.uint8)[:, None] & 3
        values: Values = (fields.astype(np.float32) - 1) * factor
        return values

    return from_floats(origin(stored), (4 * quarter, stored.shape[1]), "TQ2_0", read)
