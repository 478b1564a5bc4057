"""Tensors on their way: whatever is done to rows is what numpy does to arrays."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from edgellm.convert.weight import (
    Values,
    Weight,
    from_array,
    halves,
    joined,
    part,
    parts,
    reordered,
    reshaped,
    stacked,
    transposed,
)
from edgellm.errors import GGUFError
from edgellm.kernels.formats import by_name, quantize_rows


def array(*shape: int) -> Values:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def values(weight: Weight) -> Values:
    return weight.floats(np.arange(weight.rows)).reshape(weight.shape)


CHANGES: dict[str, tuple[Callable[[Weight], Weight], Callable[[Values], Values]]] = {
    "first half": (lambda w: halves(w)[0], lambda a: a[..., : a.shape[-2] // 2, :]),
    "second half": (lambda w: halves(w)[1], lambda a: a[..., a.shape[-2] // 2 :, :]),
    "even": (lambda w: halves(w, True)[0], lambda a: a[..., ::2, :]),
    "odd": (lambda w: halves(w, True)[1], lambda a: a[..., 1::2, :]),
    "turned": (transposed, lambda a: a.swapaxes(-1, -2)),
    "turned twice": (lambda w: transposed(transposed(w)), lambda a: a),
    "stacked": (lambda w: stacked([w, w]), lambda a: np.stack([a, a])),
    "joined": (lambda w: joined([w, part(w, 0, 1), w]), lambda a: np.concatenate([a, a[:1], a])),
    "part": (lambda w: part(w, 1, w.shape[0] - 1), lambda a: a[1:]),
    "flat": (lambda w: reshaped(w, (w.rows * w.columns,)), lambda a: a.reshape(-1)),
    "one row": (lambda w: reshaped(w, (1, w.rows * w.columns)), lambda a: a.reshape(1, -1)),
}


@pytest.mark.parametrize("name", CHANGES)
@given(st.lists(st.integers(1, 4), min_size=0, max_size=2), st.integers(1, 4), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_changes_are_those_of_arrays(name: str, outer: list[int], rows: int, columns: int) -> None:
    change, same = CHANGES[name]
    given_array = array(*outer, 2 * rows, columns)
    changed = change(from_array("x", given_array))
    want = same(given_array)
    assert changed.shape == want.shape
    assert np.array_equal(values(changed), want)
    picks = np.arange(changed.rows)[::-2]
    assert np.array_equal(changed.floats(picks), want.reshape(changed.rows, changed.columns)[picks])


@given(st.integers(1, 6), st.data())
@settings(max_examples=30, deadline=None)
def test_rows_in_any_order(rows: int, data: st.DataObject) -> None:
    given_array = array(rows, 3)
    order = np.array(data.draw(st.permutations(range(rows))))
    assert np.array_equal(
        values(reordered(from_array("x", given_array), order)), given_array[order]
    )


def test_tensors_of_several_types_become_floats() -> None:
    values_of = array(2, 32)
    blocks = quantize_rows(by_name("Q8_0"), values_of)
    packed = Weight("x", (2, 32), "Q8_0", "Q8_0", lambda rows: blocks[rows])
    both = stacked([from_array("y", values_of), packed])
    assert (both.type, both.natural, both.shape) == ("F32", "F16", (2, 2, 32))
    assert np.abs(values(both) - values_of).max() < 0.3


def test_what_does_not_fit_is_named() -> None:
    weight = from_array("file: tensor 'x'", array(3, 2))
    for wrong in (
        lambda: parts(weight, [1, 1]),
        lambda: part(weight, 2, 2),
        lambda: halves(weight),
        lambda: reshaped(weight, (4, 2)),
        lambda: stacked([weight, from_array("y", array(2, 2))]),
        lambda: joined([weight, from_array("y", array(3, 3))]),
    ):
        with pytest.raises(GGUFError, match=r"of shape \("):
            wrong()
