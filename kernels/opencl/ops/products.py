"""Products with matrices: one for all rows, or one of many for each part of a row."""

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from edgellm.kernels.formats import by_name
from edgellm.kernels.opencl.ops.common import bias_and_scale, output
from edgellm.kernels.opencl.plan import STEP, Choice, Grid, Lowering, Plan, Room, Size, count_word
from edgellm.kernels.opencl.sources import KernelKey, grid_bytes
from edgellm.kernels.opencl.variant import Tile, Variant
from edgellm.kernels.program import OpCall, Value, Weight

MOST_MATRICES = 3  # source/matrices.cl


def stored_type(weight: Weight) -> int:
    """The type that a matrix has on the device."""
    return by_name("F32").type_id if weight.format.name == "F64" else weight.type_id


def _operand(plan: Plan, x: Value, weight: Weight) -> Room:
    """What a product with `weight` reads: int8 records, or the float rows themselves."""
    return plan.of(x) if weight.format.unpack is None else plan.records(x)


def _few(
    function: str, type_id: int, variant: Variant, tokens: int, matrices: int = 1
) -> KernelKey:
    """A kernel of matmul.cl."""
    names = ("TOKENS", tokens), ("MATRICES", matrices), *_local_grid(type_id, variant, 0)
    return KernelKey("matmul", function, type_id, names)


def _tiled(
    function: str, type_id: int, variant: Variant, tile: Tile, matrices: int = 1
) -> KernelKey:
    """A kernel of tile.cl."""
    names = {
        "MATRICES": matrices,
        "TILE_TOKENS": tile.tokens,
        "TILE_ITEMS": tile.items,
        "TILE_GROUPS": tile.groups,
        "ITEM_TOKENS": tile.tokens // tile.items,
    }
    copies = _local_grid(type_id, variant, tile.local_bytes(variant))
    return KernelKey("tile", function, type_id, (*names.items(), *copies))


def _local_grid(type_id: int, variant: Variant, taken: int) -> tuple[tuple[str, int], ...]:
    """A definition for kernels that copy the format's grid beside `taken` bytes of local memory."""
    size = grid_bytes(type_id)
    has_room = variant.tiles and variant.slices > 1 and taken + size <= variant.local
    return (("LOCAL_GRID", 1),) if size and has_room else ()


def _least_sorted(tile: Tile, experts: int, top_k: int) -> int:
    """Rows from which on an expert has two or more of them on average."""
    return max(tile.least, 2 * experts // top_k)


def _sorted_pairs(plan: Plan, routing: Value, experts: int) -> tuple[Room | None, Room | None]:
    """Pairs and tiles (source/moe.cl) of what each expert has to do, made when first asked for."""
    if not plan.variant.tiles:
        return None, None
    if routing not in plan.sorted:
        tile, top_k, group = plan.variant.tiles[0], routing.width // 2, plan.variant.group
        pairs, tiles = Room(routing.rows, 4 * top_k), Room(routing.rows, 12 * top_k)
        names = ("EXPERTS", experts), ("TILE_TOKENS", tile.tokens)
        grid = Grid(routing.rows, lambda rows: (group,), (group,))
        least = _least_sorted(tile, experts, top_k)
        plan.emit(
            [Choice(least, KernelKey("moe", "moe_sort", definitions=names), grid)],
            STEP, plan.of(routing), pairs, tiles, np.int32(top_k), writes=[pairs, tiles],
        )  # fmt: skip
        plan.sorted[routing] = pairs, tiles
    return plan.sorted[routing]


def products(plan: Plan, calls: Sequence[OpCall], residual: Value | None = None) -> None:
    """Products of the same rows with up to MOST_MATRICES matrices of one type, in one launch.

    residual: is added to the product, which is then the last of the calls and a sum.
    """
    matmuls = calls if residual is None else calls[:1]
    x, weights = calls[0].inputs[0], [call.weights[0] for call in matmuls]
    variant, type_id, count = plan.variant, stored_type(weights[0]), len(matmuls)
    strips, lanes = sum(-(-w.rows // variant.strip_rows) for w in weights), variant.lanes

    def few(tokens: int) -> Choice:
        def sizes(rows: int) -> Size:
            return strips * lanes, variant.slices, -(-rows // tokens)

        grid = Grid(x.rows, sizes, (lanes, variant.slices, 1))
        least = 1 if tokens == 1 else max(2, tokens // 2)
        return Choice(least, _few("matmul", type_id, variant, tokens, count), grid)

    def many(tile: Tile) -> Choice:
        def sizes(rows: int) -> Size:
            return -(-rows // tile.tokens) * lanes, tile.items, strips

        key = _tiled("matmul_tiled", type_id, variant, tile, count)
        return Choice(tile.least, key, Grid(x.rows, sizes, (lanes, tile.items, 1)))

    source, added = _operand(plan, x, weights[0]), plan.of(residual) if residual else None
    rooms = [plan.new(output(call)) for call in calls[-count:]]
    each = [
        (plan.weights.matrix(weight), *bias_and_scale(plan, call), room, np.int32(weight.rows))
        for call, weight, room in zip(matmuls, weights, rooms, strict=True)
    ]
    plan.emit(
        [*map(few, variant.tokens), *map(many, variant.tiles)],
        STEP, source, added, count_word(x), np.int32(weights[0].columns), *chain(*each),
        writes=rooms,
    )  # fmt: skip


def _matmul(plan: Plan, call: OpCall) -> None:
    products(plan, [call])


def expert_products(
    plan: Plan, call: OpCall, *, matrices: int, ranks: int, routing: Value | None
) -> None:
    """Part r of a row times the matrix of its rank r: the one that `routing` says, or number r."""
    x, weight, out = call.inputs[0], call.weights[0], output(call)
    variant, rows, first = plan.variant, out.width // ranks, int(call.attributes["first"])
    strips, lanes, type_id = -(-rows // variant.strip_rows), variant.lanes, stored_type(weight)
    sorting = _sorted_pairs(plan, routing, matrices) if routing else (None, None)

    def one(tokens: int) -> Size:
        return strips * lanes, ranks * variant.slices, tokens

    def many(tile: Tile) -> Choice:
        def sizes(tokens: int) -> Size:
            tiles = ranks * -(-tokens // tile.tokens)
            if routing:
                tiles = min(ranks * tokens, matrices + ranks * tokens // tile.tokens)
            return tiles * lanes, tile.items, strips

        grid = Grid(x.rows, sizes, (lanes, tile.items, 1))
        least = _least_sorted(tile, matrices, ranks) if routing else tile.least
        return Choice(least, _tiled("moe_tiled", type_id, variant, tile), grid)

    bias, scale = bias_and_scale(plan, call)
    source = _operand(plan, x, weight)
    room = plan.new(out)
    grid = Grid(x.rows, one, (lanes, variant.slices, 1))
    plan.emit(
        [
            Choice(1, _few("moe_matmul", type_id, variant, 1), grid),
            *map(many, variant.tiles[:1]),
        ],
        STEP, source, plan.of(routing) if routing else None, *sorting,
        plan.weights.matrix(weight, matrices, slice(first, first + rows)), bias, scale, room,
        np.int32(rows), np.int32(weight.columns), np.int32(ranks),
        np.int32(x.width // weight.columns), writes=[room],
    )  # fmt: skip


LOWERINGS: Mapping[str, Lowering] = {"matmul": _matmul}
