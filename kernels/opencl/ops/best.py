"""What follows a program's logits: the best of each row, so that few numbers cross the bus.

Knows nothing of what they are wanted for. source/best.cl has the order of numbers.
"""

from collections.abc import Callable

import numpy as np

from edgellm.kernels.opencl.plan import STEP, Choice, Grid, IndexArray, Plan, Room, Size
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.program import Value

_TILE = 1024  # numbers of which a work-group keeps the best


def room_for_best(plan: Plan, logits: Value) -> Room:
    """Room for the variant's `candidates` best of each row, uint64 keys. Comes before all launches.

    Where the host does not say which tokens a step has, they are the best of the step before.
    """
    best = Room(logits.rows, 8 * plan.variant.candidates)
    key = KernelKey("best", "best_places", definitions=_definitions(plan))
    plan.by_items(key, "ahead", 1, STEP, best, IndexArray("input_ids"))
    return best


def keep_best(plan: Plan, logits: Value, best: Room) -> None:
    """Launches that leave the best of each row there, from the largest on."""
    kept, group = plan.variant.candidates, plan.variant.group
    x, width, function = plan.of(logits), logits.width, "best_numbers"
    while x is not best:
        tiles = -(-width // _TILE)
        y = best if tiles == 1 else Room(logits.rows, 8 * kept * tiles)
        sizes = _sizes(tiles * group)
        key = KernelKey("best", function, definitions=_definitions(plan))
        choice = Choice(1, key, Grid("ranked", sizes, (group, 1)))
        plan.emit([choice], x, y, np.int32(width), writes=[y])
        x, width, function = y, kept * tiles, "best_keys"


def _sizes(items: int) -> Callable[[int], Size]:
    return lambda rows: (items, rows)


def _definitions(plan: Plan) -> tuple[tuple[str, int], ...]:
    return ("KEEP", plan.variant.candidates), ("TILE", _TILE)
