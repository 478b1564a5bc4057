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
_CPUINFO = Path("/proc/cpuinfo")
# What tells processors apart there, by whether they are x86.
_FIELDS: dict[bool, frozenset[str]] = {
    True: frozenset({"vendor_id", "cpu family", "model", "stepping", "flags"}),
    False: frozenset({"CPU implementer", "CPU variant", "CPU part", "CPU revision", "Features"}),
}
# Of what Linux lists on AArch64, by LLVM's names: what LLVM does not look for by itself, but may
# use where its name for the processor promises it.
_ARM_FEATURES = {
    "asimdhp": "fullfp16",
    "asimdrdm": "rdm",
    "lrcpc": "rcpc",
    "asimddp": "dotprod",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve2": "sve2",
}


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

    features = dict(binding.get_host_cpu_features())
    if not _is_x86():
        features |= _arm_features(read_file(_CPUINFO))
    return Processor(binding.get_host_cpu_name(), features, _is_x86())


def _is_x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


def _arm_features(cpuinfo: str) -> dict[str, bool]:
    """What the system says of features that LLVM does not look for; nothing where it is silent."""
    lists = [line.partition(":")[2] for line in cpuinfo.splitlines() if line.startswith("Features")]
    if not lists:
        return {}
    found = set.intersection(*(set(words.split()) for words in lists))
    return {llvm: name in found for name, llvm in _ARM_FEATURES.items()}


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
        fields = _FIELDS[_is_x86()]
        lines = read_file(_CPUINFO).splitlines()
        # Once each: processors of a machine may be of several kinds.
        kept = dict.fromkeys(line for line in lines if line.split("\t")[0] in fields)
        if {line.split("\t")[0] for line in kept} == fields:
            return "\n".join(kept)
    isa = host_isa()
    return f"{isa.cpu}\n{isa.features}"


@cache
def host_isa() -> Isa:
    """What kernels are compiled for in this process: the best variant, or EDGELLM_ISA's.

    BackendError as for `variant`.
    """
    return variant(os.environ.get(ENVIRONMENT) or None, processor())
