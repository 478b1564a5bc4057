"""What metadata must make sense as before anyone sizes memory by it. Knows keys, not models."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.errors import GGUFError
from edgellm.gguf_loader.reader import quoted
from edgellm.gguf_loader.strings import StringArray
from edgellm.gguf_loader.values import Value, describe

# Keys `{architecture}.NAME` that size a model: the last words of the name -> least, most.
# A value, or each value of an array with one per layer, must lie between. The most are at least
# ten times what any published model has.
_BOUNDS: dict[str, tuple[int, int]] = {
    "block_count": (1, 4096),
    "context_length": (1, 2**31 - 1),
    "embedding_length": (1, 2**20),
    "vocab_size": (1, 2**24),
    "feed_forward_length": (0, 2**24),
    "expert_feed_forward_length": (0, 2**24),
    "expert_shared_feed_forward_length": (0, 2**24),
    "expert_count": (0, 2**16),
    "expert_used_count": (0, 2**16),
    "leading_dense_block_count": (0, 4096),
    "attention.head_count": (0, 2**16),
    "attention.head_count_kv": (0, 2**16),
    "attention.key_length": (0, 2**16),
    "attention.value_length": (0, 2**16),
    "attention.sliding_window": (0, 2**31 - 1),
    "rope.dimension_count": (0, 2**16),
    "ssm.conv_kernel": (0, 2**16),
    "ssm.inner_size": (0, 2**24),
    "ssm.state_size": (0, 2**16),
    "ssm.group_count": (0, 2**16),
    "ssm.time_step_rank": (0, 2**20),
}

# Arrays with an entry for each token: key -> element types.
_PER_TOKEN = {
    "tokenizer.ggml.scores": (np.float32, np.int32),
    "tokenizer.ggml.token_type": (np.int32, np.uint32),
}
_TOKENS = "tokenizer.ggml.tokens"
_STRING_ARRAYS = (_TOKENS, "tokenizer.ggml.merges")


def check_metadata(path: Path, metadata: Mapping[str, Value]) -> None:
    """Raise GGUFError naming the first key whose value cannot be right."""
    _check_sizes(path, metadata)
    _check_vocabulary(path, metadata)


def _check_sizes(path: Path, metadata: Mapping[str, Value]) -> None:
    architecture = metadata.get("general.architecture")
    if architecture is None:
        return
    if not isinstance(architecture, str):
        raise _wrong(path, "general.architecture", architecture, "a string")
    for name, (least, most) in _BOUNDS.items():
        key = f"{architecture}.{name}"
        if key not in metadata:
            continue
        value = metadata[key]
        numbers = _integers(value)
        if numbers is None:
            raise _wrong(path, key, value, f"integers from {least} to {most}")
        if numbers.size and not (numbers.min() >= least and numbers.max() <= most):
            raise _wrong(path, key, value, f"values from {least} to {most}")


def _integers(value: Value) -> npt.NDArray[Any] | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return np.array([value])
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
        return value
    return None


def _check_vocabulary(path: Path, metadata: Mapping[str, Value]) -> None:
    for key in _STRING_ARRAYS:
        if key in metadata and not isinstance(metadata[key], StringArray):
            raise _wrong(path, key, metadata[key], "an array of strings")
    tokens = metadata.get(_TOKENS)
    num_tokens = len(tokens) if isinstance(tokens, StringArray) else 0
    for key, dtypes in _PER_TOKEN.items():
        if key not in metadata:
            continue
        value = metadata[key]
        names = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        if not isinstance(value, np.ndarray) or value.dtype not in dtypes:
            raise _wrong(path, key, value, f"an array of {names}")
        if len(value) < num_tokens:
            raise _wrong(path, key, value, f"one for each of the {num_tokens} tokens")


def _wrong(path: Path, key: str, value: Value, expected: str) -> GGUFError:
    return GGUFError(f"{path}: key {quoted(key)} is {describe(value)}, expected {expected}")
