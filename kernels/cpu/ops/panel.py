"""Block-format products in the sizes that kernels use: a strip directly, or panels and tiles.

`block_product(fmt)` gives compiled functions for one format; `matmul` and `moe` bring the loops.
Formats without a reader in strips/ are unpacked row by row with their own `unpack`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgellm.kernels.cpu.compile import jit_tree
from edgellm.kernels.cpu.domain import signed_domain
from edgellm.kernels.cpu.emit import NARROW, wide_lanes
from edgellm.kernels.cpu.isa import host_isa
from edgellm.kernels.cpu.ops.common import inline
from edgellm.kernels.cpu.product import COLUMNS
from edgellm.kernels.cpu.simd import pointer
from edgellm.kernels.cpu.strips import Strip, strips
from edgellm.kernels.cpu.tiles import PanelShape, make_direct, make_fill, make_tile
from edgellm.kernels.cpu.vector_memory import interleave_rows
from edgellm.kernels.formats import Format

LANES = wide_lanes()
VECTOR_BYTES = 4 * LANES
PANEL_COLUMNS = 8192 // LANES
PANEL_STRIPS = 2
TOKEN_BLOCK = 128

# How few activation rows are better multiplied without a panel, and in which pieces: up to
# NARROW_TOKENS with 8 lanes, which read memory fastest, more with as many as there are.
NARROW_TOKENS = 3
DIRECT_TOKENS = 16 if LANES > NARROW else 8
NARROW_PIECES = (2, 1)
WIDE_PIECES = (8, 4, 1) if LANES > NARROW else (4, 1)
NEAR, FAR = 256, 8192  # bytes beyond the next strip's of what is asked for while a strip is read

# Scratch of one thread: the panel, rows as `unpack` leaves them, then float32 sums (token, strip,
# lane). A record has at most 2 groups of scales and minima.
PANEL_AT = 0
ROWS_AT = PANEL_AT + PANEL_COLUMNS // COLUMNS * PANEL_STRIPS * VECTOR_BYTES * (COLUMNS // 4 + 4)
SUMS_AT = ROWS_AT + LANES * (PANEL_COLUMNS + PANEL_COLUMNS // 2)
SUMS_BYTES = PANEL_STRIPS * VECTOR_BYTES  # from one token's sums to the next
END_OF_SCRATCH = SUMS_AT + TOKEN_BLOCK * SUMS_BYTES


@dataclass(frozen=True)
class BlockProduct:
    """Compiled functions for one format.

    fill(scratch, weight, row_bytes, first, last, which, blocks) unpacks strip `which` of a panel.
    tile_one and tile_many(panel, x, x_bytes, sums, sums_bytes, records) multiply it with 1 or
    `many` activation rows. narrow, wide: tiles.make_direct for 8 and for LANES lanes, by number of
    tokens; empty when the format has no reader.
    """

    shape: PanelShape
    fill: Callable[..., None]
    tile_one: Callable[..., None]
    tile_many: Callable[..., None]
    many: int
    narrow: dict[int, Callable[..., None]]
    wide: dict[int, Callable[..., None]]


def block_product(fmt: Format, is_listed: bool = False) -> BlockProduct:
    """The functions for this format on the processor at hand.

    is_listed: activation rows lie anywhere; x is the address of a list of their addresses and
    x_bytes what to add to each.
    """
    strip = strips(host_isa()).get(fmt.type_id)
    shape = PanelShape(LANES, PANEL_STRIPS, fmt.group_size, fmt.has_min)
    many = 4 if host_isa().vector_registers == 32 else 2
    stored = strip or Strip(signed_domain(host_isa()), _no_reader)
    return BlockProduct(
        shape=shape,
        fill=_fill_by_strip(fmt, strip, shape) if strip else _fill_by_row(fmt, shape),
        tile_one=make_tile(stored, shape, 1, is_listed),
        tile_many=make_tile(stored, shape, many, is_listed),
        many=many,
        narrow=_directs(fmt, strip, NARROW_PIECES, NARROW, is_listed) if strip else {},
        wide=_directs(fmt, strip, WIDE_PIECES, LANES, is_listed) if strip else {},
    )


def _directs(
    fmt: Format, strip: Strip, pieces: tuple[int, ...], lanes: int, is_listed: bool
) -> dict[int, Callable[..., None]]:
    return {n: make_direct(fmt, strip, n, lanes, is_listed) for n in pieces}


def _no_reader(*args: Any) -> Any:
    raise NotImplementedError("this format is unpacked row by row")


def _fill_by_strip(fmt: Format, strip: Strip, shape: PanelShape) -> Any:
    read = make_fill(fmt, strip, shape)

    @inline
    def fill(scratch, weight, row_bytes, first, last, which, blocks):
        read(scratch + PANEL_AT, weight, row_bytes, first, last, which, blocks)

    return fill


def _fill_by_row(fmt: Format, shape: PanelShape) -> Any:
    assert fmt.unpack is not None
    unpack = jit_tree(fmt.unpack)
    block_size, type_size = fmt.block_size, fmt.type_size
    per_block, groups, has_min = fmt.block_size // fmt.group_size, shape.groups, fmt.has_min
    record_bytes, between = shape.record_bytes, shape.strips * VECTOR_BYTES
    scales_at, mins_at = shape.scale_at(0, 0), shape.minimum_at(0, 0)

    @inline
    def fill(scratch, weight, row_bytes, first, last, which, blocks):
        panel = scratch + PANEL_AT + which * VECTOR_BYTES
        scales = scratch + ROWS_AT + LANES * PANEL_COLUMNS
        mins = scales + 4 * (PANEL_COLUMNS // 16)
        for r in range(LANES):
            source = weight + min(first + r, last) * row_bytes
            for block in range(blocks):
                unpack(
                    pointer(source + block * type_size, np.uint8),
                    pointer(scratch + ROWS_AT + r * PANEL_COLUMNS + block * block_size, np.int8),
                    pointer(scales + 4 * block * per_block, np.float32),
                    pointer(mins + 4 * block * per_block, np.float32),
                )
            row_scales, row_mins = pointer(scales, np.float32), pointer(mins, np.float32)
            for g in range(blocks * per_block):
                record = panel + g // groups * record_bytes + g % groups * between + 4 * r
                pointer(record + scales_at, np.float32)[0] = row_scales[g]
                if has_min:
                    pointer(record + mins_at, np.float32)[0] = row_mins[g]
        for record in range(blocks * block_size // 32):
            for part in range(0, LANES, 8):
                rows = scratch + ROWS_AT + part * PANEL_COLUMNS + 32 * record
                target = panel + record * record_bytes + 4 * part
                interleave_rows(rows, PANEL_COLUMNS, target, between)

    return fill


@inline
def lines_ahead(strip_end, end, following):
    """The near and the far lines to ask for while the strip that ends at strip_end is read.

    end: where the reading of these strips ends. following: where it goes on.
    """
    near, far = strip_end + NEAR, strip_end + FAR
    beyond = following - end
    return near if near < end else near + beyond, far if far < end else far + beyond


def in_pieces(pieces, lanes, is_listed):
    """run(weight, row_bytes, first, last, x, x_bytes, sums, blocks, near, far, t, tokens): one
    strip times tokens t and up, as many at once as there is a function for.
    """

    @inline
    def run(weight, row_bytes, first, last, x, x_bytes, sums, blocks, near, far, t, tokens):
        pass

    for count in sorted(pieces):
        run = _before(count, pieces[count], 4 * lanes, is_listed, run)
    return run


def _before(count, direct, sums_bytes, is_listed, rest):
    """Tokens in pieces of `count` while there are so many, then the rest."""

    @inline
    def run(weight, row_bytes, first, last, x, x_bytes, sums, blocks, near, far, t, tokens):
        between = 8 if is_listed else x_bytes
        while t + count <= tokens:
            here, at = x + t * between, sums + t * sums_bytes
            direct(weight, row_bytes, first, last, here, x_bytes, at, blocks, near, far)
            t += count
        rest(weight, row_bytes, first, last, x, x_bytes, sums, blocks, near, far, t, tokens)

    return run


@inline
def clear(sums, count):
    """Zeroes the sums of `count` tokens."""
    values = pointer(sums, np.float32)
    for i in range(count * SUMS_BYTES // 4):
        values[i] = np.float32(0.0)
