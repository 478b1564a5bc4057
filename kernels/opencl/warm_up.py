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
    steps: list[tuple[tuple[int, ...], int]] = [((size,), 0) for size in sorted(sizes | {1})]
    steps.append(((1, 2), 0))  # neither alone nor many of one sequence
    if plan.variant.split_rows:
        steps.append(((1,), ATTENTION_TILE))
    known = [c.weights[0].rows for c in program.calls if c.op == "embed_positions"]
    for counts, past in steps:
        if all(past + max(counts) <= positions for positions in known):
            given = {
                name: np.zeros((sum(counts), value.width), np.float32)
                for name, value in program.inputs.items()
            }
            yield small_batch(counts, past, groups, program.num_adapters), given


def small_batch(counts: tuple[int, ...], past: int, groups: int, adapters: int) -> Batch:
    """Sequences of token 0, all in block 0, of each of which the last so many are computed."""
    rows, seqs = sum(counts), len(counts)
    positions = np.concatenate([np.arange(past, past + n, dtype=np.int32) for n in counts])
    return Batch(
        input_ids=np.zeros(rows, np.int32),
        positions=positions,
        query_start=np.cumsum((0, *counts), dtype=np.int32),
        seq_lens=np.array(counts, np.int32) + past,
        slot_mapping=np.tile(positions.astype(np.int64) % BLOCK_SIZE, (groups, 1)),
        block_tables=np.zeros((groups, seqs, -(-(past + max(counts)) // BLOCK_SIZE)), np.int32),
        state_slots=np.zeros(seqs, np.int32),
        logits_rows=np.arange(rows, dtype=np.int32)[-_MOST_OUTPUTS:],
        adapter_scales=np.zeros((seqs, adapters), np.float32),
    )
