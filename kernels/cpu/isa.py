"""What the processor under us can do, and which part of that kernels use. Knows no kernels.

A variant is a set of instructions that kernels are written for. The best one that the processor
has is used; the environment variable EDGELLM_ISA names another, so that all of them can be tested
on one machine.
"""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgellm.errors import BackendError
from edgellm.linux import read_file

ENVIRONMENT = "EDGELLM_ISA"
_CPUINFO = ("vendor_id", "cpu family", "model", "stepping", "flags")  # Linux on x86


@dataclass(frozen=True)
class Isa:
    """The code generation target: LLVM's CPU name and feature string, and what we branch on."""

    name: str
    cpu: str
    features: str
    is_x86: bool
    vector_registers: int
    has_avx2: bool = False  # and FMA and F16C
    has_vnni: bool = False
    has_wide_vnni: bool = False  # the same on 512-bit vectors
    has_gfni: bool = False  # bit matrices times bytes
    has_vbmi: bool = False  # any eight neighbouring bits of a 64-bit word as a byte
    has_dotprod: bool = False

    @property
    def has_half(self) -> bool:
        """Whether IEEE halves are converted by instructions."""
        return self.has_avx2 or not self.is_x86

    def registers_of(self, lanes: int) -> int:
        """How many vectors of so many float32, at least 8, the registers hold."""
        widest = 16 if self.has_wide_vnni else 8 if self.has_avx2 else 4
        return self.vector_registers * min(widest, lanes) // lanes


@dataclass(frozen=True)
class _Variant:
    """needs: LLVM features of the processor. without: those switched off when it is asked for by
    name; what builds on them goes with them. has: fields of Isa that are true. may: those that are
    true where the processor has that feature, too."""

    needs: tuple[str, ...]
    without: tuple[str, ...]
    has: tuple[str, ...]
    may: tuple[tuple[str, str], ...] = ()


_AVX2 = ("avx2", "fma", "f16c")
_AVX512 = ("avx512f", "avx512bw", "avx512vl", "avx512vnni")
# By whether the processor is an x86; the best variant first.
_VARIANTS: dict[bool, dict[str, _Variant]] = {
    True: {
        "avx512-vnni": _Variant(
            _AVX2 + _AVX512,
            (),
            ("has_avx2", "has_vnni", "has_wide_vnni"),
            (("gfni", "has_gfni"), ("avx512vbmi", "has_vbmi")),
        ),
        "avx-vnni": _Variant(
            (*_AVX2, "avxvnni"), ("avx512f",), ("has_avx2", "has_vnni"), (("gfni", "has_gfni"),)
        ),
        "avx2": _Variant(_AVX2, ("avx512f", "avxvnni"), ("has_avx2",)),
        "portable": _Variant((), ("avx",), ()),
    },
    False: {
        "dotprod": _Variant(("dotprod",), (), ("has_dotprod",)),
        "portable": _Variant((), ("dotprod",), ()),
    },
}


@dataclass(frozen=True)
class Processor:
    """LLVM's name for a processor, and each of its features: whether it has it."""

    cpu: str
    features: Mapping[str, bool]
    is_x86: bool

    def has(self, *features: str) -> bool:
        return all(self.features.get(feature, False) for feature in features)

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the variants that it can run, the best first."""
        rows = _VARIANTS[self.is_x86]
        return tuple(name for name, row in rows.items() if self.has(*row.needs))


@cache
def processor() -> Processor:
    """The one of this machine."""
    from llvmlite import binding

    return Processor(
        cpu=binding.get_host_cpu_name(),
        features=dict(binding.get_host_cpu_features()),
        is_x86=platform.machine().lower() in ("x86_64", "amd64"),
    )


def variant(name: str | None, host: Processor) -> Isa:
    """The target `name`, none of whose code needs more; None is the best that `host` has.

    BackendError for a name that is unknown or that `host` cannot run.
    """
    names = host.variants
    if name is not None and name not in names:
        raise BackendError(
            f"{ENVIRONMENT} is {name!r}: this processor ({host.cpu}) can run {', '.join(names)}"
        )
    row = _VARIANTS[host.is_x86][name or names[0]]
    # Left alone, the compiler may use all there is.
    without = row.without if name else ()
    flags = [f"{'+' if has else '-'}{feature}" for feature, has in sorted(host.features.items())]
    many = host.has("avx512vl") and not {"avx", "avx512f"} & set(without)
    return Isa(
        name=name or names[0],
        cpu=host.cpu,
        features=",".join(flags + [f"-{feature}" for feature in without]),
        is_x86=host.is_x86,
        vector_registers=32 if many or not host.is_x86 else 16,
        **dict.fromkeys(row.has, True),
        **{field: host.has(feature) for feature, field in row.may},
    )


def target_identity() -> str:
    """Text that differs where machine code may: the processor, and EDGELLM_ISA.

    Read from the system where it tells, so that nothing of LLVM is loaded for it.
    """
    if not os.environ.get(ENVIRONMENT):
        first = read_file(Path("/proc/cpuinfo")).split("\n\n")[0]
        kept = [line for line in first.splitlines() if line.split("\t")[0] in _CPUINFO]
        if len(kept) == len(_CPUINFO):
            return "\n".join(kept)
    isa = host_isa()
    return f"{isa.cpu}\n{isa.features}"


@cache
def host_isa() -> Isa:
    """What kernels are compiled for in this process: the best variant, or EDGELLM_ISA's.

    BackendError as for `variant`.
    """
    return variant(os.environ.get(ENVIRONMENT) or None, processor())
