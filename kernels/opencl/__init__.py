"""The OpenCL backend: the same programs on a GPU, or on whatever else has an OpenCL driver.

Imported only when it is asked for; the only room that imports pyopencl.
"""

from edgellm.kernels.opencl.backend import OpenCLBackend

__all__ = ["OpenCLBackend"]
