#!/usr/bin/env python3
"""Time the product of one matrix with few and with many rows, for every block format.

    products.py [--megabytes 64] [--threads 2] [--rounds 5] [--save RESULT.json] [FORMAT...]

The matrix lies in memory and is larger than the caches; its numbers have no meaning. A product
with one row is held against a plain read of the same bytes by the same threads, in turns.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from edgellm.config import cache_dir
from edgellm.kernels.batch import Batch
from edgellm.kernels.cpu import CpuBackend
from edgellm.kernels.cpu.plain_read import PlainRead
from edgellm.kernels.formats import FORMATS, Format
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Weight
from edgellm.machine import cpu_name

COLUMNS = 4096
MANY = 128  # rows of the larger product
COMPUTED = [fmt for fmt in FORMATS.values() if fmt.unpack or fmt.name in ("F32", "F16", "BF16")]


def weight_of(fmt: Format, size: int) -> Weight:
    """A matrix of about `size` bytes: small random integers, whose bytes are no wild floats."""
    row_bytes = fmt.row_bytes(COLUMNS)
    rows = max(64, size // row_bytes)
    data = np.random.default_rng(0).integers(0, 60, (rows, row_bytes), np.uint8)
    return Weight(fmt.name, fmt.type_id, rows, COLUMNS, data)


def tokens(count: int) -> Batch:
    """`count` rows of one sequence; the program has no cache."""
    ids = np.arange(count, dtype=np.int32)
    return Batch(
        input_ids=ids,
        positions=ids,
        query_start=np.array([0, count], np.int32),
        seq_lens=np.array([count], np.int32),
        slot_mapping=np.zeros((0, count), np.int64),
        block_tables=np.zeros((0, 1, 0), np.int32),
        state_slots=np.zeros(1, np.int32),
        logits_rows=ids,
    )


def seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def measure(backend: CpuBackend, fmt: Format, size: int, threads: int, rounds: int) -> dict:
    weight = weight_of(fmt, size)
    b = Builder()
    table = np.random.default_rng(1).standard_normal((MANY, COLUMNS)).astype(np.float32)
    x = b.embed(Weight("x", 0, MANY, COLUMNS, table.view(np.uint8)))
    program = b.finish(logits=b.matmul(x, weight))
    executable = backend.load(program, KVStorage((), ()))
    read = PlainRead([weight.data], cache_dir(), threads)
    one, many = tokens(1), tokens(MANY)
    taken: dict[str, list[float]] = {"read": [], "one": [], "many": []}
    for number in range(rounds + 1):
        for name, run in (
            ("read", read.run),
            ("one", lambda: executable.run(one)),
            ("many", lambda: executable.run(many)),
        ):
            if number:  # the first round warms up
                taken[name].append(seconds(run))
            else:
                run()
    read.close()
    executable.close()
    middle = {name: statistics.median(times) for name, times in taken.items()}
    macs = weight.rows * weight.columns
    return {
        "bytes_per_weight": weight.data.nbytes / macs,
        "read_gbs": weight.data.nbytes / middle["read"] / 1e9,
        "one_row_gbs": weight.data.nbytes / middle["one"] / 1e9,
        "one_row_gmacs": macs / middle["one"] / 1e9,
        "many_rows": MANY,
        "many_rows_gmacs": MANY * macs / middle["many"] / 1e9,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("formats", nargs="*", metavar="FORMAT")
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", type=Path)
    a = parser.parse_args()
    backend = CpuBackend(cache_dir(), a.threads)
    results = {}
    print(f"{'format':8} {'one row GB/s':>13} {'of a read':>9} {'128 rows GMAC/s':>16}")
    for fmt in COMPUTED:
        if a.formats and fmt.name not in a.formats:
            continue
        row = measure(backend, fmt, a.megabytes << 20, a.threads, a.rounds)
        results[fmt.name] = row
        share = row["one_row_gbs"] / row["read_gbs"]
        print(
            f"{fmt.name:8} {row['one_row_gbs']:13.1f} {share:9.0%} {row['many_rows_gmacs']:16.0f}",
            flush=True,
        )
    backend.close()
    if a.save:
        machine = {"processor": cpu_name(), "threads": a.threads, "rounds": a.rounds}
        a.save.write_text(json.dumps({"machine": machine, "formats": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
