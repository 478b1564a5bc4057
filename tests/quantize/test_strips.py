"""Strips of rows come in order, each with the factors of its own rows."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from edgellm.kernels.formats import by_name
from edgellm.quantize.folds import Factors, scaled
from edgellm.quantize.strips import converted


def test_factors_of_rows_stay_with_their_matrix() -> None:
    """Rows of an expert that are no multiple of a strip's."""
    rng = np.random.default_rng(1)
    matrices, rows, columns = 3, 96, 1024  # strips of 64 rows
    values = rng.standard_normal((matrices * rows, columns)).astype(np.float32)
    factors = Factors(rng.uniform(1, 2, matrices * rows).astype(np.float32))
    stored = values.view(np.uint8).reshape(matrices, rows, 4 * columns)
    f32 = by_name("F32")
    with ThreadPoolExecutor(2) as pool:
        strips = list(converted("a", stored, f32, f32, None, pool, 2, factors))
    found = np.concatenate(strips).view(np.float32)
    np.testing.assert_array_equal(found, scaled(values, factors))
