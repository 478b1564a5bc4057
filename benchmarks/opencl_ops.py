#!/usr/bin/env python3
"""Time products on an OpenCL device by block format, and a model if one is named.

    opencl_ops.py [--device NAME] [--model MODEL] [--save RESULT.json] [--all] [FORMAT...]
                  [--megabytes 64] [--products 8] [--rows 512] [--rounds 5]

A product with one row is held against the speed at which the device reads its memory, or copies it
where that is faster; one with many rows against a loop of what its kernel multiplies with: dp4a for
integers where the device has it, else fma. Each time is that of several products with matrices of
their own, less the time of a step without any; nothing is read back. On a processor (PoCL) only the
shares mean anything, if at all.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pyopencl as cl
from products import COLUMNS, COMPUTED, tokens, weight_of

from edgellm.kernels.formats import Format
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.opencl import OpenCLBackend
from edgellm.kernels.opencl.devices import describe, found
from edgellm.kernels.opencl.executable import Executable
from edgellm.kernels.opencl.variant import Variant, header, language
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Weight

USUAL = "Q4_0 Q4_1 Q5_0 Q8_0 Q4_K Q5_K Q6_K IQ4_XS MXFP4 F16".split()
MOVED = 256 << 20  # bytes that are read, or copied
LAUNCHES = 1000  # of a kernel that does nothing
LOOP, CHAINS = 4096, 8  # turns, and independent sums of an item
ITEMS_PER_UNIT = 2048  # of the device's compute units
PLAIN = """
__kernel void read(__global const uint4 *x, __global uint *found, int count)
{
    uint4 sum = 0;
    for (int i = get_global_id(0); i < count; i += get_global_size(0))
        sum += x[i];
    if (sum.s0 + sum.s1 + sum.s2 + sum.s3 == 1)
        found[0] = 1;
}
__kernel void nothing(__global uint *x) {}
"""
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


def memory_gbs(context: cl.Context, queue: cl.CommandQueue, rounds: int) -> dict[str, float]:
    """How fast the device reads, and how fast it copies: bytes read and written."""
    one, other = (cl.Buffer(context, cl.mem_flags.READ_WRITE, MOVED) for _ in range(2))
    for buffer in one, other:
        cl.enqueue_fill_buffer(queue, buffer, np.int32(0), 0, MOVED)
    read = cl.Kernel(cl.Program(context, PLAIN).build(), "read")
    read.set_args(one, other, np.int32(MOVED // 16))
    items = ITEMS_PER_UNIT * context.devices[0].max_compute_units

    def reads() -> None:
        for _ in range(8):
            cl.enqueue_nd_range_kernel(queue, read, (items,), (64,))
        queue.finish()

    def copies() -> None:
        for _ in range(8):
            cl.enqueue_copy(queue, other, one, byte_count=MOVED)
        queue.finish()

    return {
        "read": 8 * MOVED / median_seconds(reads, rounds) / 1e9,
        "copy": 16 * MOVED / median_seconds(copies, rounds) / 1e9,
    }


def launch_us(context: cl.Context, queue: cl.CommandQueue, rounds: int) -> float:
    """What one of many launches in a row takes that do nothing."""
    nothing = cl.Kernel(cl.Program(context, PLAIN).build(), "nothing")
    room = cl.Buffer(context, cl.mem_flags.READ_WRITE, 64)
    nothing.set_args(room)

    def run() -> None:
        for _ in range(LAUNCHES):
            cl.enqueue_nd_range_kernel(queue, nothing, (64,), (64,))
        queue.finish()

    return median_seconds(run, rounds) / LAUNCHES * 1e6


def peak_gmacs(
    context: cl.Context, queue: cl.CommandQueue, variant: Variant, kind: str, rounds: int
) -> float:
    """Multiply-adds per second of nothing else."""
    number, multiply, macs = "floatV", "fused(a, b, c)", variant.vector
    if kind == "dp4a":
        number, multiply, macs = "int", "DOT4(as_uint(a), as_uint(b), c)", 4
    text = f"#define KIND {number}\n#define LOOP {LOOP}\n#define CHAINS {CHAINS}\n"
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

    return 4 * macs * items * LOOP * CHAINS / median_seconds(run, rounds) / 1e9


def products(backend: OpenCLBackend, weights: list[Weight], rows: int) -> Executable:
    """A program that multiplies up to `rows` rows with each of the matrices."""
    b = Builder()
    table = np.random.default_rng(1).standard_normal((rows, COLUMNS)).astype(np.float32)
    x = b.embed(Weight("x", 0, rows, COLUMNS, table.view(np.uint8)))
    for weight in weights:
        b.matmul(x, weight)
    return backend.load(b.finish(logits=x), KVStorage((), ()))


def step_seconds(
    backend: OpenCLBackend, weights: list[Weight], rows: int, rounds: int
) -> Mapping[int, float]:
    """Of a step with one row, and of one with `rows`."""
    executable = products(backend, weights, rows)
    batches = {count: replace(tokens(count), outputs=frozenset()) for count in (1, rows)}
    taken = {
        count: median_seconds(lambda batch=batch: executable.run(batch), rounds)
        for count, batch in batches.items()
    }
    executable.close()
    return taken


def measure(
    backend: OpenCLBackend, fmt: Format, a: argparse.Namespace, least: Mapping[int, float]
) -> dict[str, float]:
    one = weight_of(fmt, a.megabytes << 20)
    # Each lies elsewhere, so that each is copied to the device.
    weights = [replace(one, data=one.data.copy()) for _ in range(a.products)]
    size, macs = one.data.nbytes * a.products, one.rows * COLUMNS * a.products
    taken = step_seconds(backend, weights, a.rows, a.rounds)
    seconds = {rows: max(1e-9, taken[rows] - least[rows]) for rows in taken}
    return {
        "one_row_gbs": size / seconds[1] / 1e9,
        "many_rows": a.rows,
        "many_rows_gmacs": macs * a.rows / seconds[a.rows] / 1e9,
    }


def model_rates(model: str, number: int) -> list[dict]:
    """What `edgellm bench` says of a model on the device."""
    command = [sys.executable, "-m", "edgellm", "bench", model, "--json"]
    command += ["--backend", "opencl", "--device", str(number), "-p", "512", "-n", "64"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=f"default: {' '.join(USUAL)}")
    parser.add_argument("--all", action="store_true", help="all formats")
    parser.add_argument("--device")
    parser.add_argument("--model", help="a name or file that `edgellm bench` takes")
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--products", type=int, default=8)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", type=Path)
    a = parser.parse_args()
    wanted = [f.name for f in COMPUTED] if a.all else a.formats or USUAL
    formats = [fmt for fmt in COMPUTED if fmt.name in wanted]
    if len(formats) != len(set(wanted)):
        parser.error(f"formats are {' '.join(fmt.name for fmt in COMPUTED)}")

    backend = OpenCLBackend(None, a.device, warms_up=False)
    device, variant = backend._context.device, backend._context.variant
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    described = describe(found().index(device), device)
    gbs, launch = memory_gbs(context, queue, a.rounds), launch_us(context, queue, a.rounds)
    kinds = ["fma"] if variant.dot4 in ("none", "avx2") else ["fma", "dp4a"]
    peaks = {kind: peak_gmacs(context, queue, variant, kind, a.rounds) for kind in kinds}
    print(described.description)
    print(f"reads {gbs['read']:.1f} GB/s, copies {gbs['copy']:.1f} GB/s; a launch {launch:.1f} us")
    print(", ".join(f"{kind} {peak:.0f} GMAC/s" for kind, peak in peaks.items()))
    many = f"{a.rows} rows GMAC/s"
    print(f"{'format':8} {'one row GB/s':>12} {'of memory':>9} {many:>18} {'of peak':>8}")
    rows = {}
    least = step_seconds(backend, [], a.rows, a.rounds)
    for fmt in formats:
        kind = kinds[-1] if fmt.unpack else "fma"
        row = measure(backend, fmt, a, least)
        shares = row["one_row_gbs"] / max(gbs.values()), row["many_rows_gmacs"] / peaks[kind]
        rows[fmt.name] = {**row, "of_memory": shares[0], "of_peak": shares[1], "peak": kind}
        print(
            f"{fmt.name:8} {row['one_row_gbs']:12.1f} {shares[0]:9.0%} "
            f"{row['many_rows_gmacs']:18.0f} {shares[1]:8.0%} of {kind}",
            flush=True,
        )
    rates = model_rates(a.model, described.number) if a.model else []
    for rate in rates:
        print(
            f"{a.model}: {rate['n_prompt']} + {rate['n_gen']} tokens, {rate['avg_ts']:.1f} a second"
        )
    if a.save:
        machine = {**asdict(described), "gbs": gbs, "launch_us": launch, "peak_gmacs": peaks}
        result = {"machine": machine, "formats": rows, "model": rates}
        a.save.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
