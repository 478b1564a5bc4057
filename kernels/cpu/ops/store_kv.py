"""Appending keys and values to the cache.

Inside a block, keys are stored as (kv head, dimension, slot), so that a query meets the same
dimension of 32 neighbouring keys in one read; values as (kv head, slot, dimension).
"""

import numpy as np

from edgellm.kernels.cpu.layout import NUM_TOKENS, SLOT_MAPPING
from edgellm.kernels.cpu.ops.common import split
from edgellm.kernels.cpu.simd import (
    load_f16,
    load_f16_head,
    load_f32,
    load_f32_head,
    pointer,
    store_f16,
    store_f16_head,
    store_f16_one,
    store_f32,
    store_f32_head,
    store_f32_one,
)
from edgellm.kernels.kv import BLOCK_SIZE

# Eight elements of a cache type read whole or in part, written whole, in part or one alone.
CACHE_TYPES = {
    "f32": (load_f32, load_f32_head, store_f32, store_f32_head, store_f32_one),
    "f16": (load_f16, load_f16_head, store_f16, store_f16_head, store_f16_one),
}
ELEMENT_BYTES = {"f32": 4, "f16": 2}


def make_store_kv(key_type, value_type):
    store_k_one = CACHE_TYPES[key_type][4]
    _, _, store_v, store_v_head, _ = CACHE_TYPES[value_type]
    k_bytes, v_bytes = ELEMENT_BYTES[key_type], ELEMENT_BYTES[value_type]

    def store_kv(args, step, thread, threads):
        """args: k, k stride, v, v stride, key cache, value cache, group, kv heads, head_dim,
        value_dim.
        """
        heads, head_dim, value_dim = args[7], args[8], args[9]
        whole = value_dim // 8 * 8
        rest = value_dim - whole
        slots = pointer(step[SLOT_MAPPING] + 8 * args[6] * step[NUM_TOKENS], np.int64)
        begin, end = split(step[NUM_TOKENS] * heads, thread, threads)
        for item in range(begin, end):
            token, head = item // heads, item % heads
            block, slot = slots[token] // BLOCK_SIZE, slots[token] % BLOCK_SIZE
            place = (block * heads + head) * BLOCK_SIZE
            k = pointer(args[0] + 4 * (token * args[1] + head * head_dim), np.float32)
            v = args[2] + 4 * (token * args[3] + head * value_dim)
            keys = args[4] + (place * head_dim + slot) * k_bytes
            values = args[5] + (place + slot) * value_dim * v_bytes
            for i in range(head_dim):
                store_k_one(keys + i * BLOCK_SIZE * k_bytes, k[i])
            for i in range(0, whole, 8):
                store_v(values + i * v_bytes, load_f32(v + 4 * i))
            if rest:
                store_v_head(values + whole * v_bytes, load_f32_head(v + 4 * whole, rest), rest)

    return store_kv


KERNELS = {"store_kv": make_store_kv}
