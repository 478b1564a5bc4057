"""Cache types: their sizes, and the rotation before quantising."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from edgellm.kernels.formats import by_name
from edgellm.kernels.kv import BLOCK_SIZE, CACHE_TYPES, cache_type, hadamard


@pytest.mark.parametrize("name", CACHE_TYPES)
def test_sizes_are_those_of_the_format(name: str) -> None:
    kind, fmt = CACHE_TYPES[name], by_name(name.upper())
    assert kind.row_bytes(64) == 64 // fmt.block_size * fmt.type_size
    rows = np.zeros((1, 2, BLOCK_SIZE, kind.columns(64)), kind.dtype)
    assert cache_type(rows, 64) is kind and rows[0, 0, 0].nbytes == kind.row_bytes(64)


def test_an_array_of_no_cache_type_is_told() -> None:
    with pytest.raises(ValueError, match="rows of 3 uint8 are no cache of 64 numbers"):
        cache_type(np.zeros((1, 1, BLOCK_SIZE, 3), np.uint8), 64)


@given(st.integers(0, 9), st.integers(0, 1000))
def test_the_rotation_keeps_products_and_inverts_itself(power: int, seed: int) -> None:
    a, b = np.random.default_rng(seed).standard_normal((2, 2**power)).astype(np.float32)
    turned = hadamard(a), hadamard(b)
    scale = np.linalg.norm(a) * np.linalg.norm(b)
    assert abs(turned[0] @ turned[1] - a @ b) <= 1e-5 * scale
    np.testing.assert_allclose(hadamard(turned[0]), a, atol=1e-5 * np.abs(a).max())


def test_the_rotation_spreads_an_outlier() -> None:
    spike = np.zeros((3, 64), np.float32)
    spike[:, 5] = 8
    np.testing.assert_allclose(np.abs(hadamard(spike)), 1, rtol=1e-6)
