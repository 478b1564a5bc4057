#!/usr/bin/env python3
"""Time attention of one token and of a prompt over a cache of keys and values.

    attention.py [--heads 14] [--kv-heads 2] [--head-dim 64] [--layers 24] [--depths 512,4096]
                 [--tokens 1,128] [--cache f16] [--threads 2] [--rounds 7]

The layers of a model follow each other, so that a cache larger than the processor's is read from
memory; its blocks lie in no order, as in a server that has run for a while. Beside it a plain read
of the same bytes by the same threads, in turns. The shape is by default that of Qwen2.5 0.5B.
"""

import argparse
import statistics

import numpy as np
from products import seconds

from edgellm.config import cache_dir
from edgellm.kernels.batch import Batch
from edgellm.kernels.cpu import CpuBackend
from edgellm.kernels.cpu.plain_read import PlainRead
from edgellm.kernels.kv import BLOCK_SIZE, CACHE_TYPES, KVStorage
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Program, Weight

VOCABULARY = 64  # of rows that queries, keys and values are looked up in


def rows(width: int, seed: int) -> Weight:
    table = np.random.default_rng(seed).standard_normal((VOCABULARY, width)).astype(np.float32)
    return Weight("rows", 0, VOCABULARY, width, table.view(np.uint8))


def program(a: argparse.Namespace) -> Program:
    """Layers of nothing but attention, all with the same query."""
    b = Builder()
    q = b.embed(rows(a.heads * a.head_dim, 0))
    k, v = (b.embed(rows(a.kv_heads * a.head_dim, seed)) for seed in (1, 2))
    shape = {"num_heads": a.heads, "num_kv_heads": a.kv_heads, "scale": a.head_dim**-0.5}
    for _ in range(a.layers):
        out = b.attention(q, k, v, **shape)
    return b.finish(logits=out)


def storage(a: argparse.Namespace, num_blocks: int) -> KVStorage:
    kind = CACHE_TYPES[a.cache]
    shape = (num_blocks, a.kv_heads, BLOCK_SIZE, kind.columns(a.head_dim))
    made = [np.zeros(shape, kind.dtype) for _ in range(2 * a.layers)]
    return KVStorage(tuple(made[::2]), tuple(made[1::2]))


def step(depth: int, count: int, table: np.ndarray) -> Batch:
    """`count` tokens of one sequence of which `depth` are in the cache."""
    positions = np.arange(depth, depth + count, dtype=np.int32)
    slots = table[positions // BLOCK_SIZE] * BLOCK_SIZE + positions % BLOCK_SIZE
    return Batch(
        input_ids=positions % VOCABULARY,
        positions=positions,
        query_start=np.array([0, count], np.int32),
        seq_lens=np.array([depth + count], np.int32),
        slot_mapping=slots.astype(np.int64)[None],
        block_tables=table[None, None].astype(np.int32),
        state_slots=np.zeros(1, np.int32),
        logits_rows=np.array([count - 1], np.int32),
    )


def measure(a: argparse.Namespace, backend: CpuBackend, depth: int, count: int) -> None:
    """Prints a line: time of a layer, rate of keys and values, share of a read, products."""
    num_blocks = -(-(depth + count) // BLOCK_SIZE)
    kv, table = storage(a, num_blocks), np.random.default_rng(3).permutation(num_blocks)
    executable = backend.load(program(a), kv)
    executable.run(step(0, depth, table))
    batch = step(depth, count, table)
    read = PlainRead(
        [x.view(np.uint8).reshape(-1, 64) for x in kv.keys + kv.values], cache_dir(), a.threads
    )
    taken: dict[str, list[float]] = {"read": [], "attention": []}
    for number in range(a.rounds + 1):
        for name, run in (("read", read.run), ("attention", lambda: executable.run(batch))):
            spent = seconds(run)
            if number:  # the first round warms up
                taken[name].append(spent)
    read.close()
    executable.close()
    middle = {name: statistics.median(times) for name, times in taken.items()}
    size = sum(x.nbytes for x in kv.keys + kv.values)
    macs = 2 * a.layers * a.heads * a.head_dim * (depth * count + count * (count + 1) // 2)
    spent = middle["attention"]
    print(
        f"{depth:6} {count:6} {1e6 * spent / a.layers:10.1f} {size / spent / 1e9:6.1f} "
        f"{middle['read'] / spent:9.0%} {macs / spent / 1e9:8.1f}",
        flush=True,
    )


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, number in (
        ("heads", 14), ("kv-heads", 2), ("head-dim", 64), ("layers", 24), ("threads", 2),
        ("rounds", 7),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--depths", type=numbers, default="512,4096")
    parser.add_argument("--tokens", type=numbers, default="1,128")
    parser.add_argument("--cache", choices=sorted(CACHE_TYPES), default="f16")
    a = parser.parse_args()
    backend = CpuBackend(cache_dir(), a.threads)
    print(
        f"{'depth':>6} {'tokens':>6} {'us a layer':>10} {'GB/s':>6} {'of a read':>9} {'GMAC/s':>8}"
    )
    for depth in a.depths:
        for count in a.tokens:
            measure(a, backend, depth, count)
    backend.close()


if __name__ == "__main__":
    main()
