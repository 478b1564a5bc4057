"""Multiply-adds and bytes per token, counted from the tensors of a file."""

import math
from pathlib import Path

import pytest

from edgellm.bench.work import work
from edgellm.gguf_loader import TensorInfo, open_gguf
from edgellm.models import read_config, record
from tests.models.recipes.parts import EXPERTS, EXPERTS_USED, HIDDEN, VOCAB
from tests.models.tiny import write_tiny


def used(tensor: TensorInfo, amount: int) -> int:
    """The share of a tensor's `amount` that a token needs; vectors and tables do not count."""
    if len(tensor.shape) == 1 or tensor.name.endswith(".bias"):
        return 0
    return amount * EXPERTS_USED // EXPERTS if "_exps" in tensor.name else amount


@pytest.mark.parametrize("name", ["llama", "gpt-oss"])
def test_products_are_counted(tmp_path: Path, name: str) -> None:
    with open_gguf(write_tiny(tmp_path, name)) as file:
        found = work(record(file, read_config(file), 64))
        tensors = file.tensors.values()
        elements = sum(used(tensor, math.prod(tensor.shape)) for tensor in tensors)
        assert found.macs_per_output == HIDDEN * VOCAB  # the embedding is the output matrix
        assert found.macs_per_token == elements - HIDDEN * VOCAB
        assert found.num_bytes == sum(used(tensor, tensor.nbytes) for tensor in tensors)
        del found  # views of the map
