"""How keys and values lie in a block of the cache, for each type: written one, read a block.

Keys are (kv head, dimension, slot), so that a query meets the same dimension of 32 neighbouring
keys in one read; values are (kv head, slot, dimension). Quantised keys keep, for every 32
dimensions, the 32 slots' half scales and then their integers in that order: bytes (q8_0), or
nibbles of which the low ones are the first 16 dimensions (q4_0). Quantised values are rows as in
`formats/legacy.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgellm.kernels.cpu.ops.common import inline
from edgellm.kernels.cpu.simd import first_lane, pointer, splat_f32
from edgellm.kernels.cpu.vector_memory import (
    load_f16,
    load_f16_head,
    load_f32,
    load_f32_head,
    load_high_nibbles,
    load_i8,
    load_low_nibbles,
    store_f16,
    store_f16_head,
    store_f16_one,
    store_f32,
    store_f32_head,
    store_f32_one,
)
from edgellm.kernels.kv import BLOCK_SIZE, CACHE_TYPES, SCALED

ONE = np.float32(1.0)
TWO = np.float32(2.0)
ZERO = np.float32(0.0)
SCALES = 2 * BLOCK_SIZE  # bytes of the scales of 32 dimensions of a block's keys


@dataclass(frozen=True)
class Layout:
    """One cache type. Widths are those of a head.

    bytes_per_32: of 32 numbers.
    store_key(x, block, slot, width), store_value(x, block, slot, width): from `width` float32 at
    address x into a head's part of a block. widen_keys(block, target, width): to float32 rows of
    32 slots, one for each dimension. widen_values(block, target, width, padded): to rows of
    `padded`, one for each slot.
    """

    bytes_per_32: int
    store_key: Callable[..., None]
    store_value: Callable[..., None]
    widen_keys: Callable[..., None]
    widen_values: Callable[..., None]


def _floats(name, load, load_head, store, store_head, store_one):
    per_32 = CACHE_TYPES[name].bytes_per_32
    element = per_32 // 32

    @inline
    def store_key(x, block, slot, width):
        numbers = pointer(x, np.float32)
        for i in range(width):
            store_one(block + (i * BLOCK_SIZE + slot) * element, numbers[i])

    @inline
    def store_value(x, block, slot, width):
        row = block + slot * width * element
        whole = width // 8 * 8
        for i in range(0, whole, 8):
            store(row + i * element, load_f32(x + 4 * i))
        if whole < width:
            rest = width - whole
            store_head(row + whole * element, load_f32_head(x + 4 * whole, rest), rest)

    @inline
    def widen_keys(block, target, width):
        for i in range(0, width * BLOCK_SIZE, 8):
            store_f32(target + 4 * i, load(block + i * element))

    @inline
    def widen_values(block, target, width, padded):
        for slot in range(BLOCK_SIZE):
            for i in range(0, width, 8):
                place = block + (slot * width + i) * element
                out = target + 4 * (slot * padded + i)
                if i + 8 <= width:
                    store_f32(out, load(place))
                else:
                    store_f32(out, load_head(place, width - i))

    return Layout(per_32, store_key, store_value, widen_keys, widen_values)


@inline
def largest(x):
    """Of 32 numbers the first whose magnitude is the largest, with its sign."""
    numbers, best = pointer(x, np.float32), ZERO
    for i in range(SCALED):
        if abs(numbers[i]) > abs(best):
            best = numbers[i]
    return best


@inline
def first_half(place):
    """The IEEE half at an address, as float32."""
    return first_lane(load_f16_head(place, 1))


@inline
def inverse(d):
    return ONE / d if d != ZERO else ZERO


@inline
def whole(x):
    """Without the fraction; what is no number, or far out of range, becomes some integer."""
    return np.int64(min(max(x, np.float32(-512.0)), np.float32(512.0)))


def _stores(per_32, store_numbers):
    """store_key and store_value of a type whose 32 numbers store_numbers writes."""
    group_bytes = BLOCK_SIZE * per_32

    @inline
    def store_key(x, block, slot, width):
        for g in range(width // SCALED):
            group = block + g * group_bytes
            store_numbers(x + 4 * SCALED * g, group + 2 * slot, group + SCALES + slot, BLOCK_SIZE)

    @inline
    def store_value(x, block, slot, width):
        for g in range(width // SCALED):
            place = block + (slot * (width // SCALED) + g) * per_32
            store_numbers(x + 4 * SCALED * g, place, place + 2, 1)

    return store_key, store_value


def _q8_0():
    per_32 = CACHE_TYPES["q8_0"].bytes_per_32
    group_bytes = BLOCK_SIZE * per_32

    @inline
    def store_numbers(x, scale_at, first, step):
        """32 numbers to a half scale, and int8 that lie `step` bytes apart."""
        d = abs(largest(x)) / np.float32(127.0)
        store_f16_one(scale_at, d)
        factor, numbers = inverse(d), pointer(x, np.float32)
        for i in range(SCALED):
            scaled = numbers[i] * factor
            towards_zero = whole(scaled)
            rest = whole(TWO * (scaled - np.float32(towards_zero)))  # halves round away from zero
            pointer(first + i * step, np.int8)[0] = towards_zero + rest

    store_key, store_value = _stores(per_32, store_numbers)

    @inline
    def widen_keys(block, target, width):
        for g in range(width // SCALED):
            group = block + g * group_bytes
            for slot in range(0, BLOCK_SIZE, 8):
                scale = load_f16(group + 2 * slot)
                for i in range(SCALED):
                    at = i * BLOCK_SIZE + slot
                    out = target + 4 * (g * SCALED * BLOCK_SIZE + at)
                    store_f32(out, load_i8(group + SCALES + at) * scale)

    @inline
    def widen_values(block, target, width, padded):
        for slot in range(BLOCK_SIZE):
            for g in range(width // SCALED):
                place = block + (slot * (width // SCALED) + g) * per_32
                scale = splat_f32(first_half(place))
                out = target + 4 * (slot * padded + g * SCALED)
                for i in range(0, SCALED, 8):
                    store_f32(out + 4 * i, load_i8(place + 2 + i) * scale)

    return Layout(per_32, store_key, store_value, widen_keys, widen_values)


def _q4_0():
    per_32 = CACHE_TYPES["q4_0"].bytes_per_32
    group_bytes, pairs = BLOCK_SIZE * per_32, SCALED // 2

    @inline
    def store_numbers(x, scale_at, first, step):
        """32 numbers to a half scale, and 16 bytes of two nibbles that lie `step` apart."""
        d = largest(x) / np.float32(-8.0)
        store_f16_one(scale_at, d)
        factor, numbers = inverse(d), pointer(x, np.float32)
        for i in range(pairs):
            low = min(15, whole(numbers[i] * factor + np.float32(8.5)))
            high = min(15, whole(numbers[pairs + i] * factor + np.float32(8.5)))
            pointer(first + i * step, np.uint8)[0] = low | high << 4

    store_key, store_value = _stores(per_32, store_numbers)

    @inline
    def widen_keys(block, target, width):
        eight = splat_f32(np.float32(8.0))
        for g in range(width // SCALED):
            group = block + g * group_bytes
            for slot in range(0, BLOCK_SIZE, 8):
                scale = load_f16(group + 2 * slot)
                for i in range(pairs):
                    at = i * BLOCK_SIZE + slot
                    out = target + 4 * (g * SCALED * BLOCK_SIZE + at)
                    codes = group + SCALES + at
                    store_f32(out, (load_low_nibbles(codes) - eight) * scale)
                    store_f32(
                        out + 4 * pairs * BLOCK_SIZE, (load_high_nibbles(codes) - eight) * scale
                    )

    @inline
    def widen_values(block, target, width, padded):
        eight = splat_f32(np.float32(8.0))
        for slot in range(BLOCK_SIZE):
            for g in range(width // SCALED):
                place = block + (slot * (width // SCALED) + g) * per_32
                scale = splat_f32(first_half(place))
                out = target + 4 * (slot * padded + g * SCALED)
                for i in range(0, pairs, 8):
                    codes = place + 2 + i
                    store_f32(out + 4 * i, (load_low_nibbles(codes) - eight) * scale)
                    store_f32(out + 4 * (pairs + i), (load_high_nibbles(codes) - eight) * scale)

    return Layout(per_32, store_key, store_value, widen_keys, widen_values)


LAYOUTS = {
    "f32": _floats("f32", load_f32, load_f32_head, store_f32, store_f32_head, store_f32_one),
    "f16": _floats("f16", load_f16, load_f16_head, store_f16, store_f16_head, store_f16_one),
    "q8_0": _q8_0(),
    "q4_0": _q4_0(),
}
