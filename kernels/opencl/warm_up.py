"""Small steps that make a driver build what later ones need.

Knows nothing of devices: some drivers build a kernel only when it is first run.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from edgellm.kernels.batch import Batch, Float32
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.kernels.opencl.plan import Plan
from edgellm.kernels.program import ATTENTION_TILE, Program

_MOST_OUTPUTS = 64  # rows of logits: more of them would take memory for good that few steps need


def warming_steps(program: Program, plan: Plan) -> Iterator[tuple[Batch, Mapping[str, Float32]]]:
    """Batches that between them need every kernel of a program, and what it is given with each.

    What they write to the cache lies in its first block, before anything else does.
    """
    groups = len(program.kv_groups)
    sizes = {choice.least for launch in plan.launches for choice in launch.choices}
    steps = [(size, 0) for size in sorted(sizes | {1})]
    if plan.variant.split_rows:
        steps.append((1, ATTENTION_TILE))
    known = [c.weights[0].rows for c in program.calls if c.op == "embed_positions"]
    for rows, past in steps:
        if all(past + rows <= positions for positions in known):
            given = {
                name: np.zeros((rows, value.width), np.float32)
                for name, value in program.inputs.items()
            }
            yield _small_batch(rows, past, groups, program.num_adapters), given


def _small_batch(rows: int, past: int, groups: int, adapters: int) -> Batch:
    """One sequence, all of it token 0 and in block 0, of which the last `rows` are computed."""
    positions = np.arange(past, past + rows, dtype=np.int32)
    return Batch(
        input_ids=np.zeros(rows, np.int32),
        positions=positions,
        query_start=np.array([0, rows], np.int32),
        seq_lens=positions[-1:] + 1,
        slot_mapping=np.tile(positions.astype(np.int64) % BLOCK_SIZE, (groups, 1)),
        block_tables=np.zeros((groups, 1, -(-(past + rows) // BLOCK_SIZE)), np.int32),
        state_slots=np.zeros(1, np.int32),
        logits_rows=np.arange(rows, dtype=np.int32)[-_MOST_OUTPUTS:],
        adapter_scales=np.zeros((1, adapters), np.float32),
    )
