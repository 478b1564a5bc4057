"""edgellm: local inference for GGUF language models.

The names below load on first use, so that `import edgellm` costs nothing.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgellm.version import __version__

# In a checkout `kernels`, `gguf_loader` and `tui` lie beside this folder; a wheel has them inside.
if not (Path(__file__).parent / "kernels").is_dir():
    __path__.append(str(Path(__file__).parent.parent))

if TYPE_CHECKING:
    from edgellm.errors import (
        BackendError,
        CatalogError,
        ContextOverflow,
        EdgeLLMError,
        GGUFError,
        RequestError,
    )
    from edgellm.llm import Model, load
    from edgellm.types import Completion, SamplingParams, TokenEvent

_HOMES = {
    "load": "edgellm.llm",
    "Model": "edgellm.llm",
    "SamplingParams": "edgellm.types",
    "Completion": "edgellm.types",
    "TokenEvent": "edgellm.types",
    "EdgeLLMError": "edgellm.errors",
    "GGUFError": "edgellm.errors",
    "CatalogError": "edgellm.errors",
    "RequestError": "edgellm.errors",
    "ContextOverflow": "edgellm.errors",
    "BackendError": "edgellm.errors",
}

__all__ = [
    "BackendError",
    "CatalogError",
    "Completion",
    "ContextOverflow",
    "EdgeLLMError",
    "GGUFError",
    "Model",
    "RequestError",
    "SamplingParams",
    "TokenEvent",
    "__version__",
    "load",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'edgellm' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__
