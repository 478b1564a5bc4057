"""Codes of four bits to values, in each of the ways that devices may do it."""

from collections.abc import Mapping

import numpy as np
import pyopencl as cl
import pytest

from edgellm.kernels.formats.codebook import E2M1, IQ4, Codebook
from edgellm.kernels.opencl import OpenCLBackend
from edgellm.kernels.opencl.binaries import Binaries
from edgellm.kernels.opencl.sources import read, table
from edgellm.kernels.opencl.variant import GPU, header

WORDS = np.random.default_rng(0).integers(0, 1 << 32, 4096, np.uint32)
# What the instructions of NVIDIA's and AMD's GPUs do, one byte after another.
BYTES = """static inline uint chosen(uint a, uint b, uint at, int step)
{
    uint result = 0;
    for (int i = 0; i < 4; i++)
        result |= (upsample(b, a) >> 8 * (at >> step * i & 7u) & 255u) << 8 * i;
    return result;
}
#define EACH(a, b, at, step) (uint4)( \\
    chosen(((uint4)(a)).s0, ((uint4)(b)).s0, ((uint4)(at)).s0, step), \\
    chosen(((uint4)(a)).s1, ((uint4)(b)).s1, ((uint4)(at)).s1, step), \\
    chosen(((uint4)(a)).s2, ((uint4)(b)).s2, ((uint4)(at)).s2, step), \\
    chosen(((uint4)(a)).s3, ((uint4)(b)).s3, ((uint4)(at)).s3, step))
"""
WAYS = {
    "arithmetic": "",
    "nibbles": BYTES + "#define PERMUTE_BY_NIBBLES(a, b, at) EACH(a, b, at, 4)\n",
    "bytes": BYTES + "#define PERMUTE_BY_BYTES(a, b, at) EACH(a, b, at, 8)\n",
}
KERNEL = """
__kernel void translate(__global const uint4 *words, __global uint4 *values)
{
    uint4 both[2];
    FUNCTION(words[get_global_id(0)], TABLE, both, both + 1);
    values[2 * get_global_id(0)] = both[0];
    values[2 * get_global_id(0) + 1] = both[1];
}
"""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("function", "name", "values"),
    [("translate8", "IQ4", IQ4), ("e2m1_and_12", "E2M1_AND_12", E2M1 + 12)],
)
def test_values_of_codes(
    backends: Mapping[str, OpenCLBackend], way: str, function: str, name: str, values: Codebook
) -> None:
    queue = backends["gpu"]._context.queue
    text = [header(GPU, 4), "#define BLOCK_SIZE 32\n#define TYPE_SIZE 16\n", WAYS[way]]
    text += [
        f"#define FUNCTION {function}\n#define TABLE {name}\n",
        table(name, values.view("<u4")),
    ]
    text += [read("common.cl"), read("format.cl"), KERNEL]
    binaries = Binaries(queue.context, queue.device, None)  # not by way of pyopencl's store
    program = binaries.build("".join(text), ["-cl-std=CL1.2"])
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    given = cl.Buffer(queue.context, flags, hostbuf=WORDS)
    got = np.zeros((len(WORDS) // 4, 2, 4, 4), np.int8)
    room = cl.Buffer(queue.context, flags, hostbuf=got)
    cl.Kernel(program, "translate")(queue, (len(WORDS) // 4,), None, given, room)
    cl.enqueue_copy(queue, got, room)
    codes = WORDS.view(np.uint8).reshape(-1, 4, 4)
    np.testing.assert_array_equal(got[:, 0], values[codes & 15])
    np.testing.assert_array_equal(got[:, 1], values[codes >> 4])
