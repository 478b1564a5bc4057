"""Readers of block formats, one file per family as in `formats/`.

A format without one is unpacked by its own `unpack` function.
"""

from edgellm.kernels.cpu.isa import Isa
from edgellm.kernels.cpu.strips import codebook, grids, k_quants, legacy, small
from edgellm.kernels.cpu.strips.strip import Strip
from edgellm.kernels.formats import by_name

__all__ = ["Strip", "strips"]


def strips(isa: Isa) -> dict[int, Strip]:
    """Readers by ggml type id, for a processor."""
    families = (legacy, k_quants, codebook, grids, small)
    named = {name: strip for family in families for name, strip in family.strips(isa).items()}
    return {by_name(name).type_id: strip for name, strip in named.items()}
