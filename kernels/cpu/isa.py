"""What the processor under us can do. Knows nothing of kernels."""

import platform
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Isa:
    """The code generation target: LLVM's CPU name and feature string, and what we branch on."""

    cpu: str
    features: str
    is_x86: bool
    has_avx2: bool
    has_vnni: bool
    vector_registers: int
    has_wide_vnni: bool  # the same on 512-bit vectors


@cache
def host_isa() -> Isa:
    """The processor of this machine, as LLVM sees it."""
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    avx2 = all(features.get(f, False) for f in ("avx2", "fma", "f16c"))
    vnni = features.get("avxvnni", False) or (
        features.get("avx512vnni", False) and features.get("avx512vl", False)
    )
    return Isa(
        cpu=binding.get_host_cpu_name(),
        features=features.flatten(),
        is_x86=platform.machine().lower() in ("x86_64", "amd64"),
        has_avx2=avx2,
        has_vnni=avx2 and vnni,
        has_wide_vnni=avx2
        and all(features.get(f, False) for f in ("avx512vnni", "avx512bw", "avx512vl")),
        vector_registers=32 if features.get("avx512vl", False) or features.get("neon") else 16,
    )
