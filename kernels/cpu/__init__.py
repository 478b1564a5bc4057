"""The CPU backend: kernels compiled for this processor, run by a team of threads.

Numba compiles and llvmlite loads; a process whose kernels are all in the object cache never
imports Numba.
"""

from edgellm.kernels.cpu.executable import CpuBackend, Executable

__all__ = ["CpuBackend", "Executable"]
