"""Kernel sources, one file per family. Imported only when something has to be compiled.

`KERNELS` maps a kernel's name to a function that makes it for the rest of its key:
("matmul", "12") is made by KERNELS["matmul"]("12").
"""

from collections.abc import Callable
from importlib import import_module

_FAMILIES = (
    "activation",
    "adapters",
    "attention",
    "best",
    "convolution",
    "delta_rule",
    "draw",
    "elementwise",
    "embed",
    "executor",
    "expert_pages",
    "float_matmul",
    "hadamard",
    "heads",
    "linear_attention",
    "matmul",
    "moe",
    "moe_product",
    "norm",
    "quantize",
    "read",
    "relative_attention",
    "rope",
    "scan",
    "store_kv",
    "wkv",
)

Kernel = Callable[..., None]

KERNELS: dict[str, Callable[..., Kernel]] = {
    name: make
    for family in _FAMILIES
    for name, make in import_module(f"{__name__}.{family}").KERNELS.items()
}
