"""The best logits of each row, found on the device."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from edgellm.kernels.opencl import OpenCLBackend
from edgellm.kernels.opencl.best_rows import BestRows, ids_of, logits_of
from edgellm.kernels.opencl.variant import VARIANTS
from edgellm.kernels.ops import Builder
from tests.kernels.cpu.programs import rows_of, storage, tokens

ROWS = 5


def awkward(width: int) -> np.ndarray:
    """Rows with many equals, zeros of both signs, infinities, subnormals, and plain ones."""
    rng = np.random.default_rng(width)
    rows = rng.normal(size=(ROWS, width)).astype(np.float32)
    rows[1] = rng.integers(-3, 4, width)
    rows[2] = np.where(rng.random(width) < 0.5, -0.0, 0.0)
    rows[3, rng.random(width) < 0.9] = -np.inf
    rows[3, width // 2] = np.inf
    rows[4] = -1e-41 * rng.integers(0, 5, width)
    return rows


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("width", [7, 64, 1024, 1025, 70001])
def test_the_best_of_a_row(backends: Mapping[str, OpenCLBackend], variant: str, width: int) -> None:
    most, rows, b = VARIANTS[variant].candidates, awkward(width), Builder()
    program = b.finish(logits=rows_of(b, rows))
    executable = backends[variant].load(program, storage(program, 0))
    places = np.broadcast_to(np.arange(width), rows.shape)
    best = np.lexsort((places, -rows), axis=1)[:, :most]
    want = np.full_like(rows, -np.inf)
    np.put_along_axis(want, best, np.take_along_axis(rows, best, axis=1), axis=1)
    for ids in ([0, 1, 2, 3, 4], [3, 1], [4, 3, 2, 1, 0]):
        got = executable.run(replace(tokens(ids), num_best=most))["logits"]
        np.testing.assert_array_equal(got, want[ids])
    whole = executable.run(replace(tokens([1, 2]), num_best=most + 1))["logits"]
    np.testing.assert_array_equal(whole, rows[1:3])


def test_what_is_no_number_is_seen(backend: OpenCLBackend) -> None:
    rows = np.full((2, 3000), 1.0, np.float32)
    rows[0, 2047], rows[1, 2900] = np.nan, -np.float32(np.nan)
    b = Builder()
    program = b.finish(logits=rows_of(b, rows))
    executable = backend.load(program, storage(program, 0))
    got = executable.run(replace(tokens([0, 1]), num_best=1))["logits"]
    assert np.isnan(got[[0, 1], [2047, 2900]]).all() and np.isneginf(got).sum() == 2 * 2999


def test_keys_say_what_they_are_of() -> None:
    keys = np.array(
        [[0xBF800000 << 32 | 0xFFFFFFFF, 0x407FFFFF << 32 | ~5 & 0xFFFFFFFF]], np.uint64
    )
    assert ids_of(keys).tolist() == [[0, 5]] and logits_of(keys).tolist() == [[1.0, -1.0]]


def test_rows_are_filled_again() -> None:
    def key(place: int) -> int:
        return 0xBF800000 << 32 | ~place & 0xFFFFFFFF

    rows = BestRows(4)
    first = rows.fill(np.array([[key(1), key(2)], [key(3), 0]], np.uint64))
    assert np.isfinite(first).tolist() == [[False, True, True, False], [False, False, False, True]]
    assert np.isfinite(rows.fill(np.array([[key(0), 0]], np.uint64))).tolist() == [
        [True] + 3 * [False]
    ]
    again = rows.fill(np.array([[key(0), 0]] * 3, np.uint64))
    assert np.isfinite(again).tolist() == [[True] + 3 * [False]] * 3
