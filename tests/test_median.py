"""The median, against that of the standard library."""

import statistics

import pytest
from hypothesis import given, strategies as st

from edgellm.median import median


@given(st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_it_is_that_of_statistics(values: list[float]) -> None:
    assert median(iter(values)) == statistics.median(values)


def test_there_is_none_of_nothing() -> None:
    with pytest.raises(IndexError):
        median([])
