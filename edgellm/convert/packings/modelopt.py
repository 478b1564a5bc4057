"""NVIDIA's Model Optimizer: NVFP4 and FP8.

    weight uint8, weight_scale e4m3 (rows, columns / 16), weight_scale_2 (1)    NVFP4
    weight e4m3, weight_scale                                                   as fp8

Scales of activations and caches are left: nothing here rounds those.
"""

from collections.abc import Iterator

from edgellm.convert.packings import fp8
from edgellm.convert.packings.nvfp4 import nvfp4_weights
from edgellm.convert.packings.packed import Packed
from edgellm.convert.weight import Weight

_ALGORITHMS = ("NVFP4", "FP8", "FP8_PER_CHANNEL_PER_TOKEN", "MIXED_PRECISION")


def weights(packed: Packed) -> Iterator[tuple[str, Weight]]:
    """The matrices of the model."""
    algorithm = str(packed.config.get("quant_algo", "NVFP4")).upper()
    if algorithm not in _ALGORITHMS:
        raise packed.refuse("quant_algo", algorithm, f"one of {', '.join(_ALGORITHMS)}")
    for prefix in packed.names(".weight_scale_2"):
        stored = packed.take(f"{prefix}.weight")
        yield from nvfp4_weights(packed, prefix, stored, "weight_scale_2", divides=False)
        packed.drop(f"{prefix}.input_scale")
    yield from fp8.weights(packed)
