"""Appending keys and values to the cache; cache.py says how they lie there."""

import numpy as np

from edgellm.kernels.cpu.layout import NUM_TOKENS, SLOT_MAPPING
from edgellm.kernels.cpu.ops.cache import LAYOUTS
from edgellm.kernels.cpu.ops.common import split
from edgellm.kernels.cpu.simd import pointer
from edgellm.kernels.kv import BLOCK_SIZE


def make_store_kv(key_type, value_type):
    key, value = LAYOUTS[key_type], LAYOUTS[value_type]
    store_key, store_value = key.store_key, value.store_value
    k_bytes, v_bytes = key.bytes_per_32, value.bytes_per_32

    def store_kv(args, step, thread, threads):
        """args: k, k stride, v, v stride, key cache, value cache, group, kv heads, head_dim,
        value_dim.
        """
        heads, head_dim, value_dim = args[7], args[8], args[9]
        slots = pointer(step[SLOT_MAPPING] + 8 * args[6] * step[NUM_TOKENS], np.int64)
        begin, end = split(step[NUM_TOKENS] * heads, thread, threads)
        for item in range(begin, end):
            token, head = item // heads, item % heads
            block, slot = slots[token] // BLOCK_SIZE, slots[token] % BLOCK_SIZE
            place = block * heads + head
            k = args[0] + 4 * (token * args[1] + head * head_dim)
            v = args[2] + 4 * (token * args[3] + head * value_dim)
            # A block is BLOCK_SIZE = 32 rows, so bytes_per_32 times the width of one.
            store_key(k, args[4] + place * head_dim * k_bytes, slot, head_dim)
            if value_dim:
                store_value(v, args[5] + place * value_dim * v_bytes, slot, value_dim)

    return store_kv


KERNELS = {"store_kv": make_store_kv}
