"""The table of tensor types against gguf-py's, and every id accounted for."""

import gguf
import pytest

from edgellm.gguf_loader import GGML_TYPES, REMOVED_TYPES


def test_all_43_ids_are_known_or_removed() -> None:
    assert sorted([*GGML_TYPES, *REMOVED_TYPES]) == list(range(43))
    assert sorted(REMOVED_TYPES) == [4, 5, 31, 32, 33, 36, 37, 38]
    assert all(type_id == kind.type_id for type_id, kind in GGML_TYPES.items())


IN_GGUF_PY = {member.value for member in gguf.GGMLQuantizationType}


@pytest.mark.parametrize("type_id", sorted(GGML_TYPES.keys() & IN_GGUF_PY))
def test_names_and_sizes_are_those_of_gguf_py(type_id: int) -> None:
    theirs = gguf.GGMLQuantizationType(type_id)
    block_size, type_size = gguf.GGML_QUANT_SIZES[theirs]
    ours = GGML_TYPES[type_id]
    assert ours.name == theirs.name
    assert ours.block_size == block_size
    if ours.name != "Q8_1":  # 36 bytes in C: two fp16 numbers and 32 weights; gguf-py says 40
        assert ours.type_size == type_size


@pytest.mark.parametrize(
    ("name", "bits_per_weight"),
    [("Q8_1", 9.0), ("NVFP4", 4.5), ("Q1_0", 1.125), ("Q2_0", 2.25), ("MXFP4", 4.25)],
)
def test_sizes_that_gguf_py_may_not_have(name: str, bits_per_weight: float) -> None:
    (kind,) = (kind for kind in GGML_TYPES.values() if kind.name == name)
    assert kind.type_size * 8 / kind.block_size == bits_per_weight
