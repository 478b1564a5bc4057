"""Weights lie on a device as strips.py says."""

from collections.abc import Mapping

import numpy as np
import pyopencl as cl
import pytest
from hypothesis import given, settings, strategies as st

from edgellm.kernels.formats import FORMATS, Format
from edgellm.kernels.opencl import OpenCLBackend, strips
from edgellm.kernels.opencl.variant import VARIANTS


def place(fmt: Format, byte: int, own: int, height: int) -> int:
    """Where in a record byte number `byte` of the block of row `own` of a strip is."""
    words, odd = divmod(fmt.type_size, 4)
    is_last = fmt.name in ("Q3_K", "Q6_K", "TQ1_0", "TQ2_0")
    byte = byte if is_last else (byte - odd) % fmt.type_size  # words first, then odd bytes
    if byte < 4 * words:
        return (byte // 4 * height + own) * 4 + byte % 4
    return 4 * words * height + odd * own + byte - 4 * words


@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=20, deadline=None)
@given(
    fmt=st.sampled_from(list(FORMATS.values())),
    matrices=st.integers(1, 3),
    rows=st.integers(1, 200),
    blocks=st.integers(1, 3),
    piece=st.sampled_from([1, 5000, 1 << 20]),
)
def test_layout(
    backends: Mapping[str, OpenCLBackend],
    variant: str,
    fmt: Format,
    matrices: int,
    rows: int,
    blocks: int,
    piece: int,
) -> None:
    """In as many pieces as it takes to copy them."""
    context, height = backends[variant]._context, VARIANTS[variant].strip_rows
    rng = np.random.default_rng(rows)
    data = rng.integers(0, 256, (matrices, rows, blocks * fmt.type_size), np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strips, "_PIECE", piece)
        buffer = strips.to_strips(context, fmt, list(data), "weights")
    count = -(-rows // height)
    got = np.empty((matrices, count, blocks, height * fmt.type_size), np.uint8)
    cl.enqueue_copy(context.queue, got, buffer)
    want = np.zeros((matrices, count * height, blocks, fmt.type_size), np.uint8)
    want[:, :rows] = data.reshape(matrices, rows, blocks, fmt.type_size)
    for row in range(count * height):
        order = [place(fmt, byte, row % height, height) for byte in range(fmt.type_size)]
        np.testing.assert_array_equal(got[:, row // height][..., order], want[:, row])
