"""The block-format product for 8 weight rows: unpack to a panel, multiply, accumulate.

A panel holds 8 rows of up to PANEL_COLUMNS weights as int8 ordered (k / 4, row, k % 4), so that a
lane is a row and no horizontal sum is needed, with the scales (and minima) of each group as 8
lanes. Results of one row and token are one chain of fused multiply-adds in k order, so they have
the same bits whatever the tile. Used by `matmul` and `moe`.
"""

import numpy as np

from edgellm.kernels.cpu.compile import jit_tree
from edgellm.kernels.cpu.layout import ACTIVATION_BLOCK
from edgellm.kernels.cpu.ops.common import inline
from edgellm.kernels.cpu.simd import (
    dot4,
    fma,
    interleave_rows,
    load_f32,
    load_i8,
    load_splat_4x_i8,
    load_splat_f32,
    pointer,
    store_f32,
    to_f32,
    zero_i32,
)

PANEL_COLUMNS = 1024
STRIP = 8  # weight rows
# Scratch of one thread: rows as unpacked, panel, scales and minima twice (by row, by group),
# then float32 accumulators of STRIP lanes per token.
ROWS_AT = 0
PANEL_AT = ROWS_AT + STRIP * PANEL_COLUMNS
SCALES_AT = PANEL_AT + STRIP * PANEL_COLUMNS
MINS_AT = SCALES_AT + STRIP * PANEL_COLUMNS // 4
ROW_SCALES_AT = MINS_AT + STRIP * PANEL_COLUMNS // 4
SUMS_AT = ROW_SCALES_AT + STRIP * PANEL_COLUMNS // 2
TOKEN_BLOCK = 128


def make_fill(fmt):
    """fill(scratch, weight, row bytes, first row, last row, columns): unpacks a panel.

    weight: address of the panel's first block in row 0. Rows past the last repeat the last.
    """
    unpack = jit_tree(fmt.unpack)
    block_size, type_size, group = fmt.block_size, fmt.type_size, fmt.group_size
    per_block = block_size // group
    has_min = fmt.has_min

    @inline
    def fill(scratch, weight, row_bytes, first, last, columns):
        blocks = columns // block_size
        groups = columns // group
        for r in range(STRIP):
            source = weight + min(first + r, last) * row_bytes
            q = scratch + ROWS_AT + r * PANEL_COLUMNS
            s = scratch + ROW_SCALES_AT
            m = s + 4 * groups
            for block in range(blocks):
                unpack(
                    pointer(source + block * type_size, np.uint8),
                    pointer(q + block * block_size, np.int8),
                    pointer(s + 4 * block * per_block, np.float32),
                    pointer(m + 4 * block * per_block, np.float32),
                )
            scales = pointer(scratch + SCALES_AT, np.float32)
            row_scales = pointer(s, np.float32)
            for g in range(groups):
                scales[STRIP * g + r] = row_scales[g]
            if has_min:
                mins = pointer(scratch + MINS_AT, np.float32)
                row_mins = pointer(m, np.float32)
                for g in range(groups):
                    mins[STRIP * g + r] = row_mins[g]
        for k in range(0, columns, 32):
            interleave_rows(scratch + ROWS_AT + k, PANEL_COLUMNS, scratch + PANEL_AT + STRIP * k)

    return fill


def make_tiles(fmt):
    """(one, four): add a panel's product with 1 or 4 activation rows to their accumulators.

    Arguments: scratch, accumulators, activation row(s), the panel's first column in the whole
    row, whole columns, panel columns. The four rows lie `x_bytes` apart.
    """
    group, has_min = fmt.group_size, fmt.has_min
    parts = ACTIVATION_BLOCK // group  # scale groups per activation block
    steps = group // 4
    sums_per_block = 2 if group == 16 else 1

    @inline
    def sums_of(x, columns, k0):
        """Address of d * sum(q) for the groups from column k0 on."""
        blocks = columns // ACTIVATION_BLOCK
        if sums_per_block == 2:
            return x + columns + 4 * (2 * blocks + k0 // 16)
        return x + columns + 4 * (blocks + k0 // 32)

    @inline
    def one(scratch, sums, x, k0, columns, width):
        panel = scratch + PANEL_AT
        scales, mins = scratch + SCALES_AT, scratch + MINS_AT
        d = x + columns + 4 * (k0 // ACTIVATION_BLOCK)
        ds = sums_of(x, columns, k0)
        q = x + k0
        acc = load_f32(sums)
        for block in range(width // ACTIVATION_BLOCK):
            scale = load_splat_f32(d + 4 * block)
            for _ in range(parts):
                total = zero_i32()
                for j in range(steps):
                    total = dot4(total, load_i8(panel + 32 * j), load_splat_4x_i8(q + 4 * j))
                acc = fma(to_f32(total), load_f32(scales) * scale, acc)
                if has_min:
                    acc = fma(load_f32(mins), load_splat_f32(ds), acc)
                panel += 32 * steps
                q += group
                scales += 32
                mins += 32
                ds += 4
        store_f32(sums, acc)

    @inline
    def four(scratch, sums, x, x_bytes, k0, columns, width):
        panel = scratch + PANEL_AT
        scales, mins = scratch + SCALES_AT, scratch + MINS_AT
        d = x + columns + 4 * (k0 // ACTIVATION_BLOCK)
        ds = sums_of(x, columns, k0)
        q = x + k0
        two, three = 2 * x_bytes, 3 * x_bytes
        a0, a1 = load_f32(sums), load_f32(sums + 32)
        a2, a3 = load_f32(sums + 64), load_f32(sums + 96)
        for block in range(width // ACTIVATION_BLOCK):
            db = d + 4 * block
            for _ in range(parts):
                t0, t1, t2, t3 = zero_i32(), zero_i32(), zero_i32(), zero_i32()
                for j in range(steps):
                    w = load_i8(panel + 32 * j)
                    qj = q + 4 * j
                    t0 = dot4(t0, w, load_splat_4x_i8(qj))
                    t1 = dot4(t1, w, load_splat_4x_i8(qj + x_bytes))
                    t2 = dot4(t2, w, load_splat_4x_i8(qj + two))
                    t3 = dot4(t3, w, load_splat_4x_i8(qj + three))
                s = load_f32(scales)
                a0 = fma(to_f32(t0), s * load_splat_f32(db), a0)
                a1 = fma(to_f32(t1), s * load_splat_f32(db + x_bytes), a1)
                a2 = fma(to_f32(t2), s * load_splat_f32(db + two), a2)
                a3 = fma(to_f32(t3), s * load_splat_f32(db + three), a3)
                if has_min:
                    m = load_f32(mins)
                    a0 = fma(m, load_splat_f32(ds), a0)
                    a1 = fma(m, load_splat_f32(ds + x_bytes), a1)
                    a2 = fma(m, load_splat_f32(ds + two), a2)
                    a3 = fma(m, load_splat_f32(ds + three), a3)
                panel += 32 * steps
                q += group
                scales += 32
                mins += 32
                ds += 4
        store_f32(sums, a0)
        store_f32(sums + 32, a1)
        store_f32(sums + 64, a2)
        store_f32(sums + 96, a3)

    return one, four


@inline
def clear(sums, tokens):
    """Zeroes the accumulators."""
    values = pointer(sums, np.float32)
    for i in range(STRIP * tokens):
        values[i] = np.float32(0.0)
