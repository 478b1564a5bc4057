#!/usr/bin/env python3
"""Time products on an OpenCL device, for every block format.

    opencl_ops.py [--device NAME] [--megabytes 64] [--products 8] [--rows 512] [--rounds 5]
                  [--save RESULT.json] [FORMAT...]

A product with one row is held against the speed of a copy on the device, which reads and writes;
one with many rows against a loop of what the kernels multiply with: dp4a where the variant has it,
else fma. Each time is that of several products with matrices of their own, less the time of a step
without any; nothing is read back. On a processor (PoCL) only the shares mean anything, if at all.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyopencl as cl
from products import COLUMNS, COMPUTED, tokens, weight_of

from edgellm.kernels.formats import Format
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.opencl import OpenCLBackend
from edgellm.kernels.opencl.variant import Variant, header, language
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Weight

COPIED = 256 << 20  # bytes
LOOP, CHAINS = 4096, 8  # turns, and independent sums of an item
ITEMS_PER_UNIT = 2048  # of the device's compute units
PEAK = """
__kernel void peak(__global KIND *x)
{
    KIND a = x[0], b = x[1], sums[CHAINS];
    for (int c = 0; c < CHAINS; c++)
        sums[c] = x[c];
    for (int i = 0; i < LOOP; i++)
        _Pragma("unroll")
        for (int c = 0; c < CHAINS; c++)
            sums[c] = MULTIPLY(a, b, sums[c]);
    for (int c = 1; c < CHAINS; c++)
        sums[0] += sums[c];
    x[get_global_id(0)] = sums[0];
}
"""


def median_seconds(run: Callable[[], object], rounds: int) -> float:
    run()
    taken = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def copy_gbs(context: cl.Context, queue: cl.CommandQueue, rounds: int) -> float:
    """Bytes read and written."""
    one, other = (cl.Buffer(context, cl.mem_flags.READ_WRITE, COPIED) for _ in range(2))

    def run() -> None:
        for _ in range(8):
            cl.enqueue_copy(queue, other, one, byte_count=COPIED)
        queue.finish()

    return 8 * 2 * COPIED / median_seconds(run, rounds) / 1e9


def peak_gmacs(
    context: cl.Context, queue: cl.CommandQueue, variant: Variant, rounds: int
) -> tuple[str, float]:
    """What the kernels multiply with, and multiply-adds per second of nothing else."""
    kind, multiply, macs = "floatV", "fused(a, b, c)", variant.vector
    has_dot4 = variant.dot4 not in ("none", "avx2")
    if has_dot4:
        kind, multiply, macs = "int", "DOT4(as_uint(a), as_uint(b), c)", 4
    text = f"#define KIND {kind}\n#define LOOP {LOOP}\n#define CHAINS {CHAINS}\n"
    text += f"#define MULTIPLY(a, b, c) {multiply}\n{header(variant, variant.vector)}{PEAK}"
    kernel = cl.Kernel(cl.Program(context, text).build([f"-cl-std={language(variant)}"]), "peak")
    items = ITEMS_PER_UNIT * context.devices[0].max_compute_units
    size = 4 * variant.vector * max(items, CHAINS)
    numbers = cl.Buffer(context, cl.mem_flags.READ_WRITE, size)
    cl.enqueue_fill_buffer(queue, numbers, np.int32(0), 0, size)
    kernel.set_args(numbers)

    def run() -> None:
        for _ in range(4):
            cl.enqueue_nd_range_kernel(queue, kernel, (items,), (64,))
        queue.finish()

    rate = 4 * macs * items * LOOP * CHAINS / median_seconds(run, rounds) / 1e9
    return "dp4a" if has_dot4 else "fma", rate


def step_seconds(backend: OpenCLBackend, weights: list[Weight], rows: int, rounds: int) -> float:
    """One step of `rows` rows that multiplies them with each of the matrices."""
    b = Builder()
    table = np.random.default_rng(1).standard_normal((rows, COLUMNS)).astype(np.float32)
    x = b.embed(Weight("x", 0, rows, COLUMNS, table.view(np.uint8)))
    for weight in weights:
        b.matmul(x, weight)
    executable = backend.load(b.finish(logits=x), KVStorage((), ()))
    batch = replace(tokens(rows), outputs=frozenset())
    seconds = median_seconds(lambda: executable.run(batch), rounds)
    executable.close()
    return seconds


def measure(backend: OpenCLBackend, fmt: Format, a: argparse.Namespace) -> dict:
    one = weight_of(fmt, a.megabytes << 20)
    # Each lies elsewhere, so that each is copied to the device.
    weights = [replace(one, data=one.data.copy()) for _ in range(a.products)]
    size, macs = one.data.nbytes * a.products, one.rows * COLUMNS * a.products
    taken = {}
    for rows in (1, a.rows):
        least = step_seconds(backend, weights[:0], rows, a.rounds)
        taken[rows] = max(1e-9, step_seconds(backend, weights, rows, a.rounds) - least)
    return {
        "one_row_gbs": size / taken[1] / 1e9,
        "many_rows": a.rows,
        "many_rows_gmacs": macs * a.rows / taken[a.rows] / 1e9,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("formats", nargs="*", metavar="FORMAT")
    parser.add_argument("--device")
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--products", type=int, default=8)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", type=Path)
    a = parser.parse_args()
    backend = OpenCLBackend(None, a.device, warms_up=False)
    device, variant = backend._context.device, backend._context.variant
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    copy = copy_gbs(context, queue, a.rounds)
    unit, peak = peak_gmacs(context, queue, variant, a.rounds)
    print(backend.name)
    print(f"a copy reads and writes {copy:.1f} GB/s; {unit} {peak:.0f} GMAC/s")
    many = f"{a.rows} rows GMAC/s"
    print(f"{'format':8} {'one row GB/s':>12} {'of a copy':>9} {many:>18} of {unit}")
    formats = {}
    for fmt in COMPUTED:
        if a.formats and fmt.name not in a.formats:
            continue
        row = formats[fmt.name] = measure(backend, fmt, a)
        print(
            f"{fmt.name:8} {row['one_row_gbs']:12.1f} {row['one_row_gbs'] / copy:9.0%} "
            f"{row['many_rows_gmacs']:18.0f} {row['many_rows_gmacs'] / peak:.0%}",
            flush=True,
        )
    if a.save:
        machine = {"device": backend.name, "copy_gbs": copy, "peak": unit, "peak_gmacs": peak}
        a.save.write_text(json.dumps({"machine": machine, "formats": formats}, indent=1) + "\n")


if __name__ == "__main__":
    main()
