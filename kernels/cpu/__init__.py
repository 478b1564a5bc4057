"""The CPU backend: kernels compiled for this processor, run by a team of threads.

Numba and LLVM compile; a process whose kernels are all in the object cache imports neither.
"""

from edgellm.kernels.cpu.executable import CpuBackend, Executable

__all__ = ["CpuBackend", "Executable"]
