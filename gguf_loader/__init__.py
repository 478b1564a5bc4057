"""GGUF files: bytes on disk -> names, types and memory maps; and new files.

Knows nothing of kernels or models.

    with open_gguf("model.gguf") as file:
        file.integer("llama.block_count"), file.tensors["output.weight"].shape

Everything a file claims is checked against what it holds before it is used; a file that fails
raises `edgellm.errors.GGUFError`, and opening allocates at most 64 MiB whatever the file says.
"""

from edgellm.gguf_loader.file import GGUFFile, open_gguf
from edgellm.gguf_loader.strings import StringArray
from edgellm.gguf_loader.tensors import TensorInfo
from edgellm.gguf_loader.types import GGML_TYPES, REMOVED_TYPES, GGMLType
from edgellm.gguf_loader.values import Value
from edgellm.gguf_loader.writer import (
    Chunks,
    NewTensor,
    NewValue,
    check_free,
    entry,
    write_gguf,
    write_header,
)

__all__ = [
    "GGML_TYPES",
    "REMOVED_TYPES",
    "Chunks",
    "GGMLType",
    "GGUFFile",
    "NewTensor",
    "NewValue",
    "StringArray",
    "TensorInfo",
    "Value",
    "check_free",
    "entry",
    "open_gguf",
    "write_gguf",
    "write_header",
]
