"""What the integers of weights are on a processor. Needs neither Numba nor LLVM."""

from dataclasses import dataclass

from edgellm.kernels.cpu.isa import Isa


@dataclass(frozen=True)
class Domain:
    """What the stored integers of a strip are: weight = stored - offset.

    top: the largest stored integer. is_signed: stored integers are int8 and offset is 0.
    """

    offset: int
    top: int
    is_signed: bool = False

    @property
    def shift(self) -> int | None:
        """log2 of the offset; None where there is nothing to subtract."""
        return self.offset.bit_length() - 1 if self.offset else None


def signed_domain(isa: Isa) -> Domain:
    """int8 weights: as they are, or 128 more where the processor multiplies any unsigned byte."""
    return Domain(128, 255) if isa.has_vnni else Domain(0, 127, is_signed=True)
