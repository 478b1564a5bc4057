"""Word arithmetic equals arithmetic byte by byte."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from edgellm.kernels.formats.codebook import E2M1, IQ4, Codebook, translate8
from edgellm.kernels.formats.words import (
    Table,
    Words,
    bits_of_bytes,
    high_nibbles,
    load8,
    low_nibbles,
    negate8,
    pack,
    store8,
    subtract8,
)

eight_bytes = st.lists(st.integers(0, 255), min_size=8, max_size=8)


def word_of(values: list[int]) -> int:
    return load8(np.array(values, np.int16).astype(np.uint8), 0)


def weights_of(word: int) -> list[int]:
    q = np.zeros(10, np.int8)
    store8(q, 1, word)
    assert q[0] == q[9] == 0
    return [int(x) for x in q[1:9]]


def as_int8(values: list[int]) -> list[int]:
    return [(value + 128) % 256 - 128 for value in values]


@given(eight_bytes)
def test_store_returns_what_load_read(values: list[int]) -> None:
    assert weights_of(word_of(values)) == as_int8(values)


@given(eight_bytes)
def test_nibbles(values: list[int]) -> None:
    assert weights_of(low_nibbles(word_of(values))) == [v & 15 for v in values]
    assert weights_of(high_nibbles(word_of(values))) == [v >> 4 for v in values]


@given(st.lists(st.integers(1, 127), min_size=8, max_size=8), st.integers(0, 255))
def test_negate(values: list[int], signs: int) -> None:
    mask = int(bits_of_bytes(0, 255)[signs])
    want = [-v if signs >> k & 1 else v for k, v in enumerate(values)]
    assert weights_of(negate8(word_of(values), mask)) == want


@given(st.lists(st.integers(0, 127), min_size=8, max_size=8), st.integers(0, 127))
def test_subtract(values: list[int], amount: int) -> None:
    assert weights_of(subtract8(word_of(values), amount)) == [v - amount for v in values]


@pytest.mark.parametrize("table", [IQ4, E2M1])
@given(codes=st.lists(st.integers(0, 15), min_size=8, max_size=8))
def test_translate(table: Codebook, codes: list[int]) -> None:
    assert weights_of(translate8(word_of(codes), table)) == [int(table[c]) for c in codes]


def test_pack_puts_the_first_weight_lowest() -> None:
    assert pack(np.array([[1, 2, 3, 4], [-1, 0, 0, 0]])).tolist() == [0x04030201, 0xFF]
    assert pack(np.array([[1, 0, 0, 0, 0, 0, 0, -128]])).tolist() == [1 - 2**63]


def test_a_table_is_made_once_and_only_when_read() -> None:
    made = []

    def make() -> Words:
        made.append(1)
        return np.array([5, -6])

    table = Table(make)
    assert not made
    assert table[1] == -6 and table.array[0] == 5
    assert made == [1]
